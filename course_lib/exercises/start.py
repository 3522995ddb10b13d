"""Unit 00, start here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl

from course_lib.catalogue import say
from course_lib.criteria import GATES, Correct, Programs, Traffic, copy_bytes
from course_lib.exercise import Case, Criterion, Exercise, Finding, Trial
from course_lib.exercises import sealed
from course_lib.exercises.cases import fixed
from course_lib.mistakes import MistakeMatcher, every, miscounted, on_exception, on_race
from course_lib.words import as_written, is_answer
from tritontrace.results import Cause
from tritontrace.tracing import trace

# ------------------------------------------------------------------------------------------------ inputs


def vector(length: int, dtype: str = "float32"):
    """Return a function that draws x (length,)."""
    return lambda g: {"x": torch.randn(length, generator=g, device=g.device).to(getattr(torch, dtype))}


# ------------------------------------------------------------------------------------------------ oracles


def issue(warps: int, latency: int, work: int, cycles: int) -> np.ndarray:
    """Return the warp (cycles,) that issues in each cycle, -1 where none can.

    A warp issues `work` cycles in a row, then waits `latency` cycles; of those that are ready, the one goes first that has
    been ready longest.
    """
    slots = np.full(cycles, -1)
    ready = [0] * warps  # the cycle from which each warp may issue
    now = 0
    while now < cycles:
        warp = min(range(warps), key=ready.__getitem__)
        now = max(now, ready[warp])
        slots[now : now + work] = warp
        now += work
        ready[warp] = now + latency
    return slots


def fewest_warps(latency: int, work: int) -> int:
    """Return the fewest warps with which no cycle of three rounds is lost, tried one after the other."""
    return next(w for w in itertools.count(1) if (issue(w, latency, work, 3 * (latency + work)) >= 0).all())


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Compute 2 x in float32, BLOCK elements for each program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2.0 * tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32), mask=i < n)


def traced_doubling() -> dict[str, int]:
    """Trace the doubling of 5000 halves into floats, 1024 at a time, and return the right answers."""
    n, BLOCK = 5000, 1024
    x = torch.ones(n, dtype=torch.float16)
    with trace() as t:
        doubled[(len(range(0, n, BLOCK)),)](x, torch.empty(n), n, BLOCK=BLOCK)  # pyright: ignore[reportArgumentType]
    return {
        "programs": t.programs,
        "masked_positions": t.loads.masked,
        "bytes_loaded": t.loads.bytes,
        "bytes_stored": t.stores.bytes,
    }


# ------------------------------------------------------------------------------------------------ criteria


@dataclass
class SharedWork(Programs):
    """Criterion Programs with messages about a vector."""

    @property
    def title(self) -> str:
        return say("criteria.programs.title", programs=self.programs)


@dataclass
class Statement(Criterion):
    """One true-or-false statement. Its explanation is shown after any answer; it opens with the right one alone."""

    name: str
    points: float = 0.5
    group: str = "plain"

    @property
    def title(self) -> str:
        return self.name

    @property
    def missed(self) -> str:
        return say("criteria.result.missed", title=self.name)

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        answers = trials[0].evidence.outputs[0] if trials[0].evidence.outputs else None
        answer = answers.get(self.name) if isinstance(answers, dict) else None
        if type(answer) is not bool:
            written = (
                as_written(answer)
                if isinstance(answers, dict) and self.name in answers
                else say("criteria.result.no_answer")
            )
            cause = None if is_answer(answer) else Cause("blank", self.name)
            return self.lost(say("start.myths.neither", name=self.name, written=written), cause=cause)
        explanation = opened(self.name, answer)
        if explanation is None:
            return self.lost(f"{not answer}.", detail=opened(self.name, not answer))
        return self.earned(f"{answer}.", detail=explanation)


def opened(key: str, answer: bool) -> str | None:
    """Return the explanation of a statement if `answer` is right, else None."""
    return sealed.opened(SEALED[key], f"start.myths/{key}", answer)


# Sealed so that nobody reads an answer by accident; anyone who wants to can try both. The plain text is the grader's.
SEALED = {
    "tensor_core_is_fma": (
        "Dv^H0uhb1B)u>76kE`t4gJl5JtK!c^N%oMUo4ZKliEgas6^b@OIGTd*b9+&1=R@fiPO%ITJC+r|mlv3<2P^L8hfI4{9!F1x5WXf@"
        "3_ObmAp`K)aMolb+^P2r<p9~(!Xb)4sQ"
    ),
    "faster_operations": (
        "s8A^4G+fI+r<Mx0fPOZYPYF4SWtl5XEXvgReru`!-GF2W+92CczAtQA516e&2s38mDi{zOl7Suu5c5MSW`u>oN6|5dT3>v{w1oVO"
        "W!_DSf}v_20-Y{J"
    ),
    "more_warps_than_alus": (
        "lD_2Kb{M&mak(ERuri&)U3MjCy3!1}?~{eK$Q%gx;nl?ev4Mh0JHHAS{67>Mvlary(<7GG=t}7^KmUkV4vdjtAyjN6;<v%~_iJ@-"
        "RC!cMZ{udDZ=*>P4U9WZ{;|x*X3>}"
    ),
    "warp_shares_instruction": (
        "`pI(5JE>uitsc{FS3PZqbz5`$tpeWR;H@@6u=Hn|Hke{|`90Af*=RCwdUYQ^e<I@&oy4x0(n|<rTs%5S?8qB9f+A0eK=m4gu<nu-"
        "$9#w;;J~Xh#iE2=QDe=2Yo56IZ~"
    ),
    "caches_are_sram": (
        "36r7>Bg$1-1lQDoZN_n*J6rId)*67c#>npkeGsUuSBoNYtvWJCvVFT{M`)5<P4zg|2WQg1joBa?RK%8W;Coe_b-~OWr?z6s^R;e3"
        "N(ePmydfUkqcKcUBD)OruXG`32igzrurOBivj"
    ),
    "hbm_is_dram": (
        "tW_j09h;Lzm<pQK)`p_r5!>oIoU?GRb(g6zXUbxunPuh7?!QbG2|}LuxLxf0kHN3YuW&NR$4Q)1#&esxy-?k(PRB~D0q0$qY(gt?"
        "XhA@HE@`wr-t#MWj7U<(ptD4pU#Yl=F7sKXFq5A"
    ),
    "compute_outgrew_memory": (
        "(?sJv=t}7Gj_7n$74?_1p_ofHpwC!HqtvbI@=qyT#5P|9eoX;V=eeicrZQ<UicoXTS(Oclx5XOdc5NzY<o1evg4Mx<gi(K<wPusE"
        "3%sEsubLlS2!2<A_?riWq!oEH_w3-V<Bpsk0E4;KG$}!X"
    ),
    "add_one_needs_flops": (
        "SImQTa%bn%C`xITsy#myPB4v}CycN}S6J@PS|DAaqvZq7J4ogjH(OB}8+KY2+oGt6b}XU3(^Q&!2UhrC%*qa;OVK(3Mov@E(Lf4^"
        "wtiSnChEp2G_Bi{R=e$>a+lflR9A{ig?E0mmR24H>GwbC!KVSDkN"
    ),
    "shared_memory_is_global": (
        ">Jf(0t6L-)ezqU1*aMr@zg|A`z|Qq{_G>Bcnge_SsWb{bo#{_Y0rQrH8zxZc@l@~3x43L|Qh5kX?*^VqEVo}8HcSiUr}g=fAGSV#"
        "V;G~=!Kz9!5H`<j"
    ),
    "program_is_thread": (
        "SZGbU&rSbWKna0MKUyM4(hBp;J7(%1m8mNAtZOGGxIZp)Uu%%>+~qGzR4wqNNKCdcVi80>39X)3rZ<txqDF-a3?UzCHY)$KIbvzp"
        "A&y}ibr4{C^n=J#cee>R+3abrpObmNx`gzxK0OB"
    ),
    "programs_in_order": (
        "WOG-Z0vq2poZ;0Q#YCV!?Sh9Ik8I9-Bof^g^-Oxi@z&6?a+!<kgE8c|yu(isGgCY4f{BMf{*9mXgn4toT?gmgR>6(U$J^!2p%o)^"
        "laEJR<REJH0nQ2s(}Xi<NwA~31;~+^"
    ),
    "masked_store_writes_zero": (
        "ILP2XJyd*qW=nBaH_vi4v!Vhv>PDJP-Mu&|X~#}iAEe{9;sD`qR)P#@p#NjpRR|60@W+XHW)Nqlnq=_YASZ~mreS)8NK0vKng"
    ),
    "launch_returns_early": (
        "-83K1O8V5z&gpLrK8RCldNh+`e_70J7|`3a0UE;465qPOW_-mL=LM>J28Dc@%tt}jH6JQUs@ocj3=jS!cE7rvN>wzF=%B_0aHPZ_"
        "l^lLH5~2lTr22l+dU!_"
    ),
    "eager_compiles": (
        "95OW^^h$#@hl{~C&ydI?F`8Ke%F*c(>XN|nEnCI=3+70Q(U?m8^y5Fp+SN%?5{<-pI%9uA$viki-%*<Y8KGFOkQrKbLDMRRQ*r<Fm%^jaEw`yR"
    ),
    "ptx_is_translated": (
        "Q`E3M7|zoRrRbsDEM|mV+M(Pfzo#G2<9~P7M6DX90f<JAoqR8Ui_5B+wOu!+GL@VCrAP^?B^5vwxPCVq&*x4trb5aPK||>3;ZTMi"
        "T7m+!R+hV7hQ-N>JM$ejce8}6;tX_CqQ4~a<y`"
    ),
    "sass_runs_everywhere": (
        "qR(qH<T~OG*h<l`fr+5biPpCX2m`<M6SCos1aj<zQx6`$`H^6)|I+v2mR%CTDpRNY3*HV+3s@<jS6P(#cy2(_n`Sz9aPlkT7&F6|"
        "B_?l*l~+wmqG;1=7d)Z^_z6t5k~$&6"
    ),
    "cubin_is_a_language": (
        "7RF_B{8vDd&_py~uxc=b%9%|6#!s!XzpD+)nBrr>Qq_Su|Gp7JYGg89-E8mWmZOnv-L?(#VGIS}F1;|4HQ`xezNIT?CD$7E^u-S0"
        "@?yu(fCZ7P51SJ"
    ),
    "similar_dot_near_one": (
        "$*F+G+0{JsP1F{(#_M2wV&0-iv3;Nba7w1Jr77ZzIDcsLfpnw%2q%?^jn26mzP5^;mH1d33Kix9_m!f{CcUJir>a7QwUojNxx-bb"
        "9bF<%pl&hUnB>#b=>"
    ),
    "weight_near_one": (
        "nqhwVF;H*{+9#Loy*$2s_X{N$@mD#-DqiU|jhVUbS5zHxn~@<M`CUK)_RUiU#mOhb19_faC3!L-)nNsxfIP@)hkL-ucLJ+pDI{V>Zijb9p8o"
    ),
    "attention_compares_embeddings": (
        "IWNJdKr*MS9j23W$kQ46m!RI!wbF!9dKGVPXeGIAhB9v4jTi@0HlMP_ec5nwKf-i}{y98Pvz~g#vqi*l$1YK$I`Yuw&7tW>Syo?g"
        "0vEp0u9rM$Lx=m<M|R@"
    ),
    "residual_adds": (
        "i%mg(?gESuEm4+h+cC_sOu>Oo512Fael|d0<@Okx$PDL<h2t@i1gGcktWCs06Dr{ec5e|wABkHkyDiVsuyNCOfBKB`RNFSye>pFU"
        "^&5u%NoitX?E"
    ),
    "unembedding_widens": (
        "9wV&P0K@hkWv2b*(kYGTg3_!KWwRw^9lQJWbK3VF=IwYD_NFl33>HQu--AKZGli+%ulzo&JqFi?`i5LBZuIqQiPEf7;=KxsTfDvt"
        "UCdX7cOdejvZAP?=B^cgc>"
    ),
    "gpus_before_cuda": (
        "r0HNwZMy8&e-!kIS$6wytiF9$oV}=5>`h9jYf2JC;SHuIujA7qv8m_1S}5A))G1vDkQSJ<Q9A4Z^<}G_Hv3$;?*r48Y6BI+HiFx+"
        "Yjab&%LS$1MR1_QXc21cv%279J9)14hA;!$Cnx"
    ),
    "matmul_needs_tensor_cores": (
        "5r0yF{>Ee;aJKfs2{7s}9B&IM|3k}Q`9pZL9A(bV8A12@W=7GCc<(^);SV4wPl*)VhykzluXv4h@JN(wQ(M#?dkmef>I-cglp?#T"
        "d5;PB4?CUs^+Z>G&Tno"
    ),
    "dennard_holds": (
        "_i}?!$s%hu)W?%Z`cIEqq3PoDo5ojH-xMl*1I&@*tTFB$t+ZUi>QD2-ge|WZ^W5<hJFaOh$~(O3EhI%@{Niu_{E}GPg;?b<J!eG?"
        "gbYtMB1=SR7n%acSAZ^?_q*iz4QSK|3dMOR>nP9w>FVFY)ky"
    ),
    "sram_shrinks": (
        "jC6jp!$FQ?CQFQ<sk$bc3!*VI-Qr^xHs#T%zjejFqHNwcfSPkkB*D}}EQ`=kBs*a{wcodJn&tqHo1M>6v|7=41H%R3jy|8f1N>+p"
        "KX>5MSm^x>=HN&Zqy"
    ),
    "hbm_is_wide": (
        "Ut;{HS@_6(eO5%G;+p8Cp`c@GQD@ZORP=K@7(P(l);t@-YVm<R8FcC(QMp#xX+`2;Ygw983hA-oG~mQN5oH}r`juRUbCUonIi}>l"
        "qB~!nyv%kWI8rYP=lx?cu)0Z%9Hf12=kBY<@Yj{96hGE*+#@*>9a>hV4q!O"
    ),
    "tensor_core_has_isa": (
        "?ekZf)mQ_Beo>=f-bL++3_Zblz$00bk+Ra=?=Lda$ObRMlr{c?XYY=w(S-R7PKw>EEjo|-Gt%S2#WGfiXMnRrMyDq5)6s*A@e_vi"
        "zE+Zh^;&A|g;!yGAOTH!CI"
    ),
    "registers_compute": (
        "M*KvcDPUpK+m!y$#`YE`)>&rRG`Br86ODM&?VrVf3$gF^lLWy#|9pPRrk@UIIhT8dTL!O9HfXHfF>Uyb98H3v6+5vRAD=b^m-h^k"
        "f?GUoq_X>ct5(|wNwt8D@{U_NHucd%AWhDAch~"
    ),
    "eager_returns_to_cpu": (
        ")z6x;f=8P&6{z2wL47VMk(p~)p_h@DV&#R972+*ktzJxk{ME}2!EfKNC!KrIYn10&cc@Z)x>^UeocxfrcMUN%sWvHkd{byG4Eekq"
        "wdO#gt0tm-aa8"
    ),
    "softmax_is_nonlinear": (
        "GEKaHyJXCWac&kCv@{1inLPK82K#6$U&y}zcDLy>=0($S^Q_MXJ*ItIWA(0m0f{ml00Nd>KBF*UkRHp=Ma$_SxlStRb91j5%ei7w!$itX"
    ),
    "clusters_share": (
        "-92(1q;XGzgSZUvco=*-iEK5qLC`+3EXuUEMtugE+cu2shWT4#RFnE!K-9&X7rACF2}jr|PGm`h%ft9Dry<f6K7FM<s=g4;&L@9O"
        "TP|?((;J^+5RdJ$m^U=RX##@fbR1jNh)!q"
    ),
    "gates_remember": (
        "B;kT&{GEsxPkS>T4$(qYa|p~nKJTByNm{MvwCh2Y_Jj((wp_Iltk8Mab|N>>pGv-%VhQm6NOcO0=wV>T=7B*WQH%gW{NYB8pCQFk"
        "q3M%N>TBWJKa~Rqz3H4OnsG#Jj<VXrG9x78u>"
    ),
    "tensor_core_takes_tensors": (
        "?Q#8$dm&cfec_b8y0OXxRZsG`niUA1LpgkWR?q2eYhzT5c#uk!$iRj_bTiJUSWxL|Znq?u3mob2)4aPrLlbwgrk(N<0J-5RTIdP}"
        ";7DcbC#if(k>p?s7~@G=W2&&}#vXBh6y*^85__EG;HQ_k5S`;C!$y;O{^rR>7ngtIOJ7YmDm6&"
    ),
}

# ------------------------------------------------------------------------------------------------ mistakes


def ends_early(expected: Callable[..., torch.Tensor]) -> MistakeMatcher:
    """Make a matcher that returns a remark if each wrong result is right up to some element, and wrong from there on."""

    def look(trials: Sequence[Trial]) -> str:
        told = [
            (torch.isclose(output.double(), expected(**arguments), rtol=0.01), t.evidence)
            for t in trials
            for arguments, output in t.calls
            if isinstance(output, torch.Tensor) and output.shape == arguments["x"].shape
        ]
        if any(e.faults for _, e in told) or any(right[right.int().sum() :].any() for right, _ in told):
            return ""
        runs = [(len(right), int(right.sum()), sum(launch.programs for launch in e.launches)) for right, e in told]
        cut = [(n, stored, programs) for n, stored, programs in runs if stored < n]
        if not 0 < len(cut) < len(runs):
            return ""
        lengths, _, counts = map(set, zip(*runs, strict=True))
        if len(counts) == 1 < len(lengths):
            return say("start.kernel.fixed_grid", programs=counts.pop())
        if all((n - stored) * programs <= stored for n, stored, programs in cut):  # less than a block is missing
            return say("start.add_one.only_whole_blocks")
        return say("start.kernel.too_few_programs")

    return look


def same_elements(trials: Sequence[Trial]) -> str:
    """Return a remark on a race between programs' stores, by how the stores overlap; else ""."""
    races = [(f, t.evidence.launches) for t in trials for f in t.evidence.faults if f.between == "stores"]
    stored = [
        (footprint.written_bytes, footprint.written_distinct_bytes * launch.programs)
        for fault, launches in races
        for launch in launches
        for footprint in launch.footprints
        if footprint.tensor == fault.tensor
    ]
    if stored and all(written == all_alike for written, all_alike in stored):
        stores = say("start.add_one.every_program_does_it_all")
    else:
        stores = say("start.fixed_copy.blocks_overlap")
    return on_race(stores)(trials)


WITHOUT_A_GRID = on_exception("Cannot call @triton.jit'd", say("start.kernel.no_grid"))

# ------------------------------------------------------------------------------------------------ numbers

warps_needed = Exercise(
    id="start.warps_needed",
    signature="warps_needed(latency: int, work: int) -> int",
    kind="formula",
    minutes=5,
    difficulty=2,
    track="more",
    lines=1,
    cases=[
        fixed("400 and 40", "even", latency=400, work=40),
        fixed("480 and 32", "even", latency=480, work=32),
        fixed("10 and 10", "even", latency=10, work=10),
        fixed("480 and 40 and a bit", "ragged", latency=481, work=40),
        fixed("399 and 40", "ragged", latency=399, work=40),
        fixed("a short wait", "ragged", latency=1, work=100),
        fixed("no wait", "no wait", latency=0, work=5),
    ],
    oracle=fewest_warps,
    criteria=[
        Correct("even", 1, say("start.warps_needed.title_even")),
        Correct("ragged", 1, say("start.warps_needed.title_ragged")),
        Correct("no wait", 1, say("start.warps_needed.title_no_wait")),
    ],
    mistakes=[
        every(
            lambda out, latency, work: out == -(-latency // work),
            say("start.warps_needed.forgets_the_one_that_waits"),
        ),
        every(lambda out, latency, work: out == 1 + latency // work, say("start.warps_needed.rounds_down")),
    ],
)

num_programs = Exercise(
    id="start.num_programs",
    signature="num_programs(n: int, block: int) -> int",
    kind="formula",
    minutes=5,
    difficulty=1,
    track="more",
    lines=1,
    cases=[
        fixed("4096 in blocks of 1024", "whole", n=4096, block=1024),
        fixed("64 in blocks of 64", "whole", n=64, block=64),
        fixed("1000 in blocks of 256", "ragged", n=1000, block=256),
        fixed("1025 in blocks of 1024", "ragged", n=1025, block=1024),
        fixed("2047 in blocks of 1024", "ragged", n=2047, block=1024),
        fixed("600 in blocks of 128", "ragged", n=600, block=128),
        fixed("1 in a block of 128", "small", n=1, block=128),
        fixed("none", "small", n=0, block=128),
    ],
    oracle=lambda n, block: len(range(0, n, block)),  # where each program starts
    criteria=[
        Correct("whole", 1, say("start.num_programs.title_whole")),
        Correct("ragged", 1, say("start.num_programs.title_ragged")),
        Correct("small", 1, say("start.num_programs.title_small")),
    ],
    mistakes=[
        every(lambda out, n, block: out == n // block, say("start.num_programs.rounds_down")),
        every(lambda out, n, block: out == n // block + 1, say("start.num_programs.one_too_many")),
    ],
)

predictions = Exercise(
    id="start.predictions",
    signature="predicted_double: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=1,
    lines=4,
    cases=[fixed("one launch", "plain")],
    oracle=traced_doubling,
    criteria=[Correct("plain", 4, say("start.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("programs", 4): say("start.predictions.full_blocks_alone"),
                ("masked_positions", 1144): say("start.predictions.masks_one_program_too_many"),
                ("bytes_loaded", 10_240): say("start.predictions.bytes_loaded"),
                ("bytes_loaded", 20_000): say("start.predictions.one_dtype_for_both"),
                ("bytes_stored", 20_480): say("start.predictions.bytes_stored"),
                ("bytes_stored", 10_000): say("start.predictions.bytes_of_a_float"),
            }
        )
    ],
)

FIRST = {  # the statements of the main path, on what stands above them; the others are More's
    "faster_operations",
    "more_warps_than_alus",
    "warp_shares_instruction",
    "caches_are_sram",
    "compute_outgrew_memory",
    "add_one_needs_flops",
    "shared_memory_is_global",
    "program_is_thread",
    "programs_in_order",
    "launch_returns_early",
}
myths = Exercise(
    id="start.myths",
    signature="myths: dict[str, bool]",
    kind="values",
    minutes=8,
    difficulty=2,
    lines=10,
    cases=[fixed("the statements", "plain")],
    oracle=lambda: {},  # each statement is judged by its seal
    criteria=[Statement(key) for key in SEALED if key in FIRST],
)

more_myths = Exercise(
    id="start.more_myths",
    signature="more_myths: dict[str, bool]",
    kind="values",
    minutes=14,
    difficulty=2,
    lines=24,
    track="more",
    cases=[fixed("the statements", "plain")],
    oracle=lambda: {},
    criteria=[Statement(key) for key in SEALED if key not in FIRST],
)

# ------------------------------------------------------------------------------------------------ kernels

add_one = Exercise(
    id="start.add_one",
    signature="add_one(x: (n,), contiguous) -> (n,)",
    minutes=15,
    difficulty=2,
    lines=8,
    cases=[
        Case("8192 elements", "plain", vector(8192)),
        Case("1 element", "ragged", vector(1)),
        Case("1000 elements", "ragged", vector(1000)),
        Case("5001 elements", "ragged", vector(5001)),
        Case("70001 elements", "ragged", vector(70_001)),
        Case("777 elements, float16", "float16", vector(777, "float16")),
        Case("65536 elements", "performance", vector(1 << 16)),
        Case("65536 elements, float16", "performance", vector(1 << 16, "float16")),
    ],
    oracle=lambda x: x.double() + 1,
    gates=GATES,
    criteria=[
        Correct("ragged", 4, say("start.add_one.title_ragged")),
        Correct("float16", 1, say("start.add_one.title_float16")),
        Traffic(copy_bytes, 2, programs=8),
    ],
    mistakes=[
        same_elements,
        ends_early(lambda x: x.double() + 1),
        WITHOUT_A_GRID,
    ],
)

fixed_copy = Exercise(
    id="start.fixed_copy",
    signature="fixed_copy(x: (n,), contiguous) -> (n,)",
    minutes=10,
    difficulty=2,
    lines=9,
    cases=[
        Case("8192 elements", "plain", vector(8192)),
        Case("1 element", "ragged", vector(1)),
        Case("1000 elements", "ragged", vector(1000)),
        Case("5001 elements", "ragged", vector(5001)),
        Case("70001 elements", "ragged", vector(70_001)),
        Case("65536 elements", "performance", vector(1 << 16)),
    ],
    oracle=lambda x: x.double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 3, say("start.fixed_copy.title_ragged")),
        Traffic(copy_bytes, 1, programs=0),
        SharedWork(8, 2, group="performance"),
    ],
    mistakes=[
        same_elements,
        ends_early(lambda x: x.double()),
        WITHOUT_A_GRID,
    ],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (add_one, predictions, fixed_copy, myths, num_programs, warps_needed, more_myths)
}
