"""Five texts of different kinds, each of at least 600 tokens in both models' vocabularies."""

from __future__ import annotations

import inspect
import random
import statistics
import textwrap
from pathlib import Path

PROSE = """
The lighthouse keeper's daughter counted ships the way other children count sheep, and she was
seldom wrong. In the winter of the long storm there were eleven of them sheltering behind the
headland: two colliers, a mail boat that had lost her funnel, a handful of fishing smacks tied to
each other like drunk friends, and one tall black barque whose name had been painted over. Nobody in
the village would say where the barque had come from. The priest thought Portugal, the schoolmaster
thought Riga, and old Hanne, who sold eels and opinions from the same basket, was certain that it
had come from nowhere at all.

On the third night the girl took a lantern down the hundred and forty steps, which she had been told
never to do alone, and walked along the breakwater until the spray made it impossible to tell where
the stones ended. There was a man sitting at the very end with his feet over the water. He was
mending a net with a bone needle, quite slowly, as though the sea were not trying to pull the whole
wall out from under him.

"You are in the way of the light," he said, without turning round. "Every time it passes, I lose my
place."

She explained that it could not be helped, that the lamp turned once in twelve seconds by means of a
clockwork her grandfather had built, and that if it stopped even once somebody out there would be
drowned. He seemed to find this reasonable. He asked how she knew that somebody was out there, and
she told him about counting, and how the number had been eleven at supper and was ten now.

"Which is the one that has gone?" asked the man.

She looked across the harbour. The colliers were where they had been, and the mail boat, and the
smacks. Where the black barque had ridden there was only a smooth place, as if someone had pressed a
thumb into the water. When she turned to say so, the wall beside her was empty, but the net lay
there, finished, and every knot of it was dry. She kept it for the rest of her life. It never caught
a single fish, and it never once let a swimmer drown, and when the schoolmaster wrote a long and
careful letter about it to a learned society in the capital, they answered politely that wool of
that kind had not been spun anywhere for about four hundred years, and would he please send the
needle too.

The needle was never found. What did turn up, many years afterwards, when the harbour was dredged
for the new ferry, was a ship's bell without a ship. It was green as a pond and quite unmarked,
apart from a row of scratches along the inside of the lip, where nobody would think of looking.
Someone had been counting there as well: ten strokes, a gap the width of a finger, and then one
more, cut deeper than the rest.
"""

LANGUAGES = """
Der Zug nach München fährt heute ausnahmsweise von Gleis sieben ab; bitte beachten Sie die
Durchsagen am Bahnsteig.
Wer einen Platz reserviert hat, findet seinen Wagen im vorderen Teil des Zuges. Für die Verspätung
bitten wir um
Entschuldigung, sie hängt mit einer Weichenstörung kurz hinter Augsburg zusammen.
La boulangère ouvrait sa boutique à cinq heures, quand la rue n'était encore qu'une promesse. On
entendait d'abord le
rideau de fer, puis le chien du voisin, puis plus rien. « Un pain bien cuit, s'il vous plaît »,
demandait toujours le
facteur, et toujours elle répondait qu'il n'y en avait pas d'autre.
¿Cuántas veces habría cruzado aquel puente sin mirar el río? Aquella mañana, sin embargo, el agua
bajaba tan clara que
se podían contar las piedras, y el niño las contó: ciento doce, sin incluir las que estaban a la
sombra.
Dzień dobry, chciałbym zamówić dwie kawy i jedną szarlotkę na wynos. Czy mogę zapłacić kartą?
Dziękuję bardzo, do
widzenia. Žlutý kůň úpěl ďábelské ódy, a nikdo se tomu nedivil, protože to dělal každou středu.
Утром пошёл снег, и город сразу стал тише. Дворник остановился у ворот, поправил шапку и долго
смотрел, как на крышах
исчезают следы голубей. Потом он взял лопату и начал работать, не торопясь, потому что до весны было
ещё далеко.
Το καράβι έφυγε πριν ξημερώσει, και μαζί του έφυγε ο θόρυβος του λιμανιού.
今日は朝から雨が降っていたので、傘を持って駅まで歩きました。電車はとても混んでいましたが、窓の外の景色を見ていると、
時間がすぐに過ぎてしまいました。会議は十時から始まります。
图书馆每天早上九点开门，晚上九点关门。借书的时候请出示学生证；每次最多可以借五本书，三个星期以内归还。
오늘은 날씨가 맑고 바람이 조금 불어요. 점심시간에 공원에서 친구를 만나서 같이 김밥을 먹었습니다.
صباح الخير، أين تقع محطة القطار من فضلك؟ إنها بعد الجسر مباشرة، على يسارك.
शहर के बीच में एक पुराना बाज़ार है जहाँ हर रविवार को मेला लगता है।
Prices went from €12.50 to £9.99 (−20 %), i.e. ≈ 3/4 of what they'd been; see § 7 ¶ 2 — or ask 🙂🚲.
x² + y² = r²; ∑ᵢ aᵢ ≤ ∞.
"""


def table() -> str:
    """Numbers, JSON and a shopping list: much of it repeats, much of it cannot be guessed."""
    dice, cities = random.Random(7), ("Oslo", "Lima", "Pune", "Kyiv")
    rows = [
        f'{{"id": {row}, "city": "{dice.choice(cities)}", "t": {dice.uniform(-9, 39):.1f}}}'
        for row in range(40)
    ]
    return (
        "Measured this week:\n[\n  " + ",\n  ".join(rows) + "\n]\n- 2 kg flour\n- yeast\n- butter, unsalted\n"
    )


def texts() -> dict[str, str]:
    """Text by kind."""
    licence = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
    return {
        "prose": PROSE.strip(),
        "languages": LANGUAGES.strip(),
        "code": inspect.getsource(textwrap) + inspect.getsource(statistics)[:2_000],
        "licence": licence,
        "table": table(),
    }
