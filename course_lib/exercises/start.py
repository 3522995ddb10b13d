"""Unit 00, start here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl

from course_lib.criteria import GATES, Correct, Programs, Traffic, copy_bytes
from course_lib.evidence import Cause
from course_lib.exercise import Case, Criterion, Exercise, Finding, Trial
from course_lib.exercises import sealed
from course_lib.exercises.cases import given
from course_lib.mistakes import Mistake, every, racing, raised
from course_lib.tracing import trace
from course_lib.words import as_written, is_answer, plural

# ------------------------------------------------------------------------------------------------ inputs


def vector(length: int, dtype: str = "float32"):
    """A drawing of x (length,)."""
    return lambda g: {"x": torch.randn(length, generator=g, device=g.device).to(getattr(torch, dtype))}


# ------------------------------------------------------------------------------------------------ oracles


def issue(warps: int, latency: int, work: int, cycles: int) -> np.ndarray:
    """(cycles,) the warp that issues in each cycle, -1 where none can.

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
    """The fewest warps with which no cycle of three rounds is lost: tried one after the other."""
    return next(w for w in itertools.count(1) if (issue(w, latency, work, 3 * (latency + work)) >= 0).all())


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Compute 2 x in float32, BLOCK elements for each program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2.0 * tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32), mask=i < n)


def traced_doubling() -> dict[str, int]:
    """5000 halves in, floats out, 1024 at a time."""
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
    """The criterion Programs, in words about a vector."""

    @property
    def title(self) -> str:
        return f"at least {self.programs} programs share the work"


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
        return f"wrong: {self.name}"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        answers = trials[0].evidence.outputs[0] if trials[0].evidence.outputs else None
        answer = answers.get(self.name) if isinstance(answers, dict) else None
        if type(answer) is not bool:
            written = as_written(answer) if isinstance(answers, dict) and self.name in answers else "no answer"
            cause = None if is_answer(answer) else Cause("blank", self.name)
            return self.lost(f"`{self.name}` is neither True nor False (you: {written})", cause=cause)
        explanation = opened(self.name, answer)
        if explanation is None:
            return self.lost(f"{not answer}.", detail=opened(self.name, not answer))
        return self.earned(f"{answer}.", detail=explanation)


def opened(key: str, answer: bool) -> str | None:
    """The explanation of a statement if `answer` is right, else None."""
    return sealed.opened(SEALED[key], f"start.myths/{key}", answer)


# Sealed so that nobody reads an answer by accident; anyone who wants to can try both. The plain text is the grader's.
SEALED = {
    "tensor_core_is_fma": (
        "Dv^H0uhb1B)u>76kE`t4gJl5JtK!c^N%oMUo4ZKliEgas6^b@OIGTd*b9+&1=R@fiPO%ITJC+r|mlv3<2P^L8hfI4{9!F1x5WXf@"
        "3_ObmAp`K)aMolb+^P2r<p9~(!Xb)4sQ"
    ),
    "faster_operations": (
        "s8A@Pv|9^LyO(qmDcsE0N_8^itI?=VOm)9&c4!e*&Dl`pb**^;&^d^?aL&$nKuW{tkb)IJ;3(`H*s&k|r~~^pd`HdYUAJCc0sIQ&"
        "3}mZ%S4=NH4a8fv9V+l8ETgQfgzo"
    ),
    "more_warps_than_alus": (
        "lD_2J{2#pHZMo+SwlYa`;I99^es4I5K70<3yGaZhD)!X`I5P-0XiHs#RMJxXhLohRN3U(7hCX&qPI|W0SFpyRMOD&IaHPC>vaD(W"
        "Lg|R<&RUYNvHH;jT*&"
    ),
    "warp_shares_instruction": (
        "`pI(5JE>uitsc{FS3PZqbz5`$tpeWR;H@@6u=Hn|Hke{|`90Af*=RCwdUYQ^e<I@&oy4x0(n|<rTs%5S?8qB9f+A0eK=m4gu<nu-"
        "$9#w;;J~Xh#iE2=QDe=2Yo56IZ~"
    ),
    "caches_are_sram": (
        "36r8sQ_7TB1edz_uFtnYuki}UC+b3T7z%;YlCziJfd=rsCv;)qXwzAV1ra_uAcO3o=xH3gakme@7;z6?TWd+q6cx`bZ<Rmcr<yym"
        "w;*%ua$vQm93*Y19X5_)(6g#?U&|aefB"
    ),
    "hbm_is_dram": (
        "tW_Ln9h=fdm`e1|701iiM8x0>ct{%v$jvAziKe&3GP!|FWqV1lQ>mgIm~7lX3xXtu6SCE`*l3FvC9pB>)Z9_FhHlicAG;C{v`HH!"
        "YCD+rimrF0YUadrNvR~_$i1n>)+8?"
    ),
    "compute_outgrew_memory": (
        "(?sJrXijSLj;N$VXCz(I1FFU{A&upEg=<o6Q!go4%!O}@G6S!+IGrjA+B0ZfLVC*gF#%SjIN7&YQi5gS2R8Izk}nw6|JgL6L-dEo"
        "HZ=%1fyOUv+>-VcSNWm*#f|"
    ),
    "add_one_needs_flops": (
        "SImQTcw?s2EKO-fY~q7?>Bq3a2GQ-Mtm4QLD5EbCz-Dt>4dtfbI(g73wyxYdEit+S5)<9~(;5ZqOp4o%joKEXquh76V$!fpC-NTd"
        ")#<y-Kkz*a;t}5uPy?NLf=Q!SvoCXQ@{Y3u^jwec1hEqnF4CT!"
    ),
    "shared_memory_is_global": (
        ">Jf(0u~;M-ezrF-rece$HVF%Fb7B2kP$Z}Q%{~-A4~7y%;z39nPXTS@VWQhZN#_gX7GJ!x2bafC?sIH5;p^b$XrvsJ(2AaM15Q2w"
        "`z{tHS-{TKhm{7%9|Q"
    ),
    "program_is_thread": (
        "SZHOvPf5Q>To19gI>zb@pn9HFg8t{7kR93`%*S^ewjUU+j3jA%9o*iiR06q~&Ew4hFQb-CqrK-gGUZjyWDncJcmq1X4>!B^bfzJ1"
        "YkP4dEXc9z$%ET*Fu^&uqQ<*`Ly%rLLHBO"
    ),
    "programs_in_order": (
        "WOG-Z0vq2poZ;0Q#YCV!?Sh9Ik8I9-Bof^g^-Oxi@z&6?a+!<kgE8c|yu(isGgCY4f{BMf{*9mXgn4toT?gmgR>6(U$J^!2p%o)^"
        "laEJR<REJH0nQ2s(}Xi<NwA~31;~+^"
    ),
    "masked_store_writes_zero": (
        "ILP2WEmV9PVoGsUU(LVR$d021dHY@qCaM!@WpDTXcxxl&a%MY)P5*YmWALmCsAEM_Yt>Q?Q_cD0?Id@pf-7XXou~$vT7c6"
    ),
    "launch_returns_early": (
        "-83K1O8V5z&gpLrK8RCldNh+`e_70J7|`3a0UE;465qPOW_-mL=LM>J28Dc@%tt}jH6JQUs@ocj3=jS!cE7rvN>wzF=%B_0aHPZ_"
        "l^lLH5~2lTr22l+dU!_"
    ),
    "eager_compiles": (
        "95Q>RX$USypCBEp+S^@=mQ$WqJCD#<1UUmNbayS;M<18!TC=%rf2%tJw{d3^m0NeD=m(1RlVK%@F6mdTUeg*^RZa)dE5aekp3F|W"
        "7E$>3g2jP?v1lg"
    ),
    "ptx_is_translated": (
        "Q`E41=+2W1xvM{t4N-rMY<$Lp7eFLa!cK|;#CC^DJ*R%|(YFM1w}$gVN$%lhH$n%76@cVnZOz{|h`0SsNI(5=J@C{12>BpTGm!_*"
        "_<OESz(W1L$eYP;=V{mD+k0Q&=B3IHbkY"
    ),
    "sass_runs_everywhere": (
        "qR(S-ZaU>|#L2E5r}o$?b-CNSI04IkJp6q&|9Gelh69IPamX%+nL7N;L;e=Ms}?mF81sr6{MXF-$sAO}L9v2myEv7bq&h5hnC#2K"
        ">>;O`kdX1PmqXZ!yK;uW?dJ{#|Je"
    ),
    "cubin_is_a_language": (
        "7RF_B_E$iX&;&Ffuxc;_${j@iMozn`kNYvonBsG(1J?s9rU!`%U*xybWmJJFX{B5za8rq@#NGD5L!Nb*+(Z&`U}P*g1<J0L_snWY"
        "erR_eLhMtz>+1"
    ),
    "similar_dot_near_one": (
        "$*F+G+0{JsP1F{(#_M2wV&0-iv3;Nba7w1Jr77ZzIDcsLfpnw%2q%?^jn26mzP5^;mH1d33Kix9_m!f{CcUJir>a7QwUojNxx-bb"
        "9bF<%pl&hUnB>#b=>"
    ),
    "weight_near_one": (
        "nqhwVF;H*{+9#Loy*$2s_X{N$@mD#-DqiU|jhVUbS5zHxn~@<M`CUK)_RUiU#mOhb19_faC3!L-)nNsxfIP@)hkL-ucLJ+pDI{V>Zijb9p8o"
    ),
    "attention_compares_embeddings": (
        "IWK{yKr*MS9UzkX+iL`^LW6`R#8+x}^E|L8!`TQtO15-Vqz{ChgXoA;55}S~rLQ`ysbVsaKnVjZ;+Us=gY`(z-g>o@ZdYcJK~d+Z^48@!3;"
    ),
    "residual_adds": (
        "i%n^H?gESuEm4+h+cC_sOu>Oo512EAc{NC2<@T8Ht4y};&feJFl_r6bbQ}qS%Bl2li)|qFRpMUFUyxr=w@btskn4*6g${NI^LMF0<2X=cJp"
    ),
    "unembedding_widens": (
        "9wV&P0K@hkWv2b*(kTtTiPEeRWwRw^CUpAsbK3VF=IwYD_NFl33>HQu-<v_wGoL28ipHfSB?i~l%nasVT=ey8@#CgCBy%lHGUygi"
        "sNZ*4+2Z~ncGn~*bgt!pMF"
    ),
    "gpus_before_cuda": (
        "r0HNxZMy8&e-!kIS$1b>e%P{PFREzE>`i8=Yf2JC;SHuIuVd4^-dnZ2S||t%)H5FNj>j3WJ~byy!tr%Jj*SPcd5!XmJgnCRY-v6U"
        "g}z6m>4l_tMQ7VtARD;*p(ZA!F?NZ&oB-<"
    ),
    "matmul_needs_tensor_cores": (
        "5r0y_e#T@TaP?@6h_|w>qZ2amN6&L*`156N&_qt{A>U;BWk%7Bc<({@A`c)bPl=Gt7($@9jb7w#DuJ^@U&WGsO+1h9pY*TDD?ZH;"
        "8Kpm1e+3w!R-8lL9{"
    ),
    "dennard_holds": (
        "_i}>}$tG$x)QA01fuDc}abKQH=sEI_JnmTWkE|#&IpntzGNzwL<sFbmK2}&Je;OkJoiRhrv;?Y%bF^UVjO!^78i@;npq4TvmADLo"
        "E6Lb}2tQ*oP&QDcP{^C>a9o;>CmraVd(T*Yfm~5@m&Bz"
    ),
    "sram_shrinks": (
        "jC6Lm!$FQ?CQFQ<sk$bc3!*VIUFBmJHl>Hw^Ks51_<oW7j}bxP#Bl<1dkwl@8V3}_6o^c!+L?S+q_y+1Js<a72FV4eWgC<ewmP=x"
        "Kfwk4dE1=W=M5<J"
    ),
    "hbm_is_wide": (
        "Ut;{=DfozeeH7Y|B!x-qY;evF0?fizJ}RYAe^gp_(pXyqV{?r!Y%3YFAIWM?FT@`Li5_t@YX(&N$lK#s_G`-AuLop@2qNCAwVgt*"
        "@EeLrlli;GJwyrbH9fM`)inZ2TharzRpJ&)l+MY0>pc+"
    ),
    "tensor_core_has_isa": (
        "?elk>FJA+MVpm&Z(A|P`z-!tluMBx7w5Ux?XmI5J91`}!Bpv2X!l7^t*mX;S-Hk^%;7gVNnbUih-^1rITarzxy)<{<a9|8hLES^U"
        "KhJ8qOkm9cu<9KU8%O"
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
        "GEKaEqh!p8b#E3G+_qjjMrv-vIU7#17QGjMv*kLqBOC4Q#TV~pI!k26_RFLo*dBSKVj-a-nxLAyNkQKQfxXZQjz`fpb_WnN+>`"
    ),
    "clusters_share": (
        "-8~{$#BEISgSm%%#8cQ}*c2E>2}9GDekaDoy`mw|=-z`_<U{BZwG$y1s;9R{PudYj8js(Jw2FrwNduqWe`bpohqlf^;-9;Pa{9UU"
        "<@d%lu3B@7!~"
    ),
    "gates_remember": (
        "B;kr=jG4(8Q+qRiE>Q@p;Xa}oQ(H)VdpqAwPAGiGlna{XFDV{1yB4-2u0}4Et&_yV4v?6ir~QRR!2mRfXc3bXI)d$LZXj^A*twnF"
        "Y#z}k3Tf;lw!^~at-h!Ia@*+%xqp^xbKK_R(f"
    ),
    "tensor_core_takes_tensors": (
        "?QzwP3n5nEdFGVPp!5k<LX>AqBc+iFXf|TyT+OO{C8OPZyKi=Q7QHwlOvj`~>*W<ChceM3BMihX+KB?N7KB5?2ZHMaAw+RCCJ4i@"
        ";x3_*kG{^BtlWo*Tw#RJ{m8l$cO*Npg#miozJG|Z7^JFD0XxKTjX+bNMJ(2jOJgMc"
    ),
}

# ------------------------------------------------------------------------------------------------ mistakes


def ends_early(expected: Callable[..., torch.Tensor]) -> Mistake:
    """Say so if wherever a result is wrong it is right up to some element, and wrong from there on."""

    def look(trials: Sequence[Trial]) -> str:
        told = [
            (torch.isclose(output.double(), expected(**arguments), rtol=0.01), t.evidence)
            for t in trials
            for arguments, output in zip(t.inputs, t.evidence.outputs, strict=False)
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
            grid = plural(counts.pop(), "program")
            return f"The grid is {grid} for every n, and the end of a longer x is never reached: let it grow with n."
        if all((n - stored) * programs <= stored for n, stored, programs in cut):  # less than a block is missing
            return "The end of x is never reached where blocks do not divide n: does the grid round up?"
        return "The end of x is never reached: has the grid a program for each block of x?"

    return look


def same_elements(trials: Sequence[Trial]) -> str:
    """Say so if there is a race: how the stores of several programs lie to one another."""
    races = [(f, t.evidence.launches) for t in trials for f in t.evidence.faults if f.between == "stores"]
    stored = [
        (footprint.written_bytes, footprint.written_distinct_bytes * launch.programs)
        for fault, launches in races
        for launch in launches
        for footprint in launch.footprints
        if footprint.tensor == fault.tensor
    ]
    if stored and all(written == all_alike for written, all_alike in stored):
        stores = "All programs store to the same elements: does `i` begin with tl.program_id(0) * BLOCK?"
    else:
        stores = "Programs store to each other's elements: does each begin BLOCK further on than the one before?"
    return racing(stores)(trials)


WITHOUT_A_GRID = raised(
    "Cannot call @triton.jit'd",
    "A kernel is launched with its grid in square brackets: kernel[(programs,)](arguments).",
)

# ------------------------------------------------------------------------------------------------ numbers

warps_needed = Exercise(
    id="start.warps_needed",
    entry="warps_needed",
    signature="warps_needed(latency: int, work: int) -> int",
    kind="formula",
    minutes=5,
    difficulty=2,
    lines=1,
    cases=[
        Case("400 and 40", "even", given(latency=400, work=40)),
        Case("480 and 32", "even", given(latency=480, work=32)),
        Case("10 and 10", "even", given(latency=10, work=10)),
        Case("480 and 40 and a bit", "ragged", given(latency=481, work=40)),
        Case("399 and 40", "ragged", given(latency=399, work=40)),
        Case("a short wait", "ragged", given(latency=1, work=100)),
        Case("no wait", "no wait", given(latency=0, work=5)),
    ],
    oracle=fewest_warps,
    criteria=[
        Correct("even", 1, "where the work divides the wait"),
        Correct("ragged", 1, "where it does not"),
        Correct("no wait", 1, "without a wait"),
    ],
    hints=[
        "Set the sliders to a wait of 400 and 40 cycles of work. With how many warps does the last gap close?",
        "While one warp waits `latency` cycles, the others must fill them, with `work` cycles each. Then count that one warp, too.",
        "The others are latency / work, rounded up: -(-latency // work) rounds up in whole numbers. Add 1.",
    ],
    mistakes=[
        every(
            lambda out, latency, work: out == -(-latency // work),
            "That many warps fill the wait. Who is it that waits?",
        ),
        every(
            lambda out, latency, work: out == 1 + latency // work,
            "A part of the wait that is shorter than `work` needs a warp, too.",
        ),
    ],
)

num_programs = Exercise(
    id="start.num_programs",
    entry="num_programs",
    signature="num_programs(n: int, block: int) -> int",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=1,
    cases=[
        Case("4096 in blocks of 1024", "whole", given(n=4096, block=1024)),
        Case("64 in blocks of 64", "whole", given(n=64, block=64)),
        Case("1000 in blocks of 256", "ragged", given(n=1000, block=256)),
        Case("1025 in blocks of 1024", "ragged", given(n=1025, block=1024)),
        Case("2047 in blocks of 1024", "ragged", given(n=2047, block=1024)),
        Case("600 in blocks of 128", "ragged", given(n=600, block=128)),
        Case("1 in a block of 128", "small", given(n=1, block=128)),
        Case("none", "small", given(n=0, block=128)),
    ],
    oracle=lambda n, block: len(range(0, n, block)),  # where each program starts
    criteria=[
        Correct("whole", 1, "where blocks divide n"),
        Correct("ragged", 1, "where they do not"),
        Correct("small", 1, "less than a block, nothing at all"),
    ],
    hints=[
        "1000 elements in blocks of 256: how many blocks are full, and what is left?",
        "The last block may be partly empty, but it needs a program. So divide and round up.",
        "(n + block - 1) // block rounds up in whole numbers; triton.cdiv(n, block) does the same.",
    ],
    mistakes=[
        every(
            lambda out, n, block: out == n // block,
            "`n // block` counts full blocks. What becomes of the elements after the last one?",
        ),
        every(
            lambda out, n, block: out == n // block + 1,
            "Where `block` divides n, that is one program too many: it has nothing to do.",
        ),
    ],
)

predictions = Exercise(
    id="start.predictions",
    entry="predicted_double",
    signature="predicted_double: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=1,
    lines=4,
    cases=[Case("one launch", "plain", given())],
    oracle=traced_doubling,
    criteria=[Correct("plain", 4, "as the trace counts them")],
    hints=[
        "How many blocks of 1024 hold 5000 elements? How many positions do these blocks have, and how many of them hold no element?",
        "Bytes count elements that are really moved, times the bytes of an element: a float16 has 2, a float32 has 4.",
        "5 programs have 5120 positions. 5000 of them load a float16 each and store a float32 each.",
    ],
)

myths = Exercise(
    id="start.myths",
    entry="myths",
    signature="myths: dict[str, bool]",
    kind="values",
    minutes=20,
    difficulty=2,
    lines=34,
    cases=[Case("the statements", "plain", given())],
    oracle=lambda: {},  # each statement is judged by its seal
    criteria=[Statement(key) for key in SEALED],
    hints=[
        "This unit has touched on each statement. Search the notebook for its main word.",
        "About half of them are false. Most of the false ones take two things for one because they have similar names.",
        "The check shows the explanation of a statement as soon as it is answered. Read those that surprise you.",
    ],
)

# ------------------------------------------------------------------------------------------------ kernels

add_one = Exercise(
    id="start.add_one",
    entry="add_one",
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
        Correct("ragged", 4, "any number of elements"),
        Correct("float16", 1, "right in float16"),
        Traffic(copy_bytes, 2, programs=8),
    ],
    hints=[
        "Begin with double_kernel. Which line says what is computed, and which say where?",
        "The kernel differs from double_kernel in one line. The function differs from `double` in the kernel that it launches.",
        "n, BLOCK = x.shape[0], 1024; out = torch.empty_like(x); "
        "add_one_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK); return out",
    ],
    mistakes=[
        same_elements,
        ends_early(lambda x: x.double() + 1),
        WITHOUT_A_GRID,
    ],
)

fixed_copy = Exercise(
    id="start.fixed_copy",
    entry="fixed_copy",
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
        Correct("ragged", 3, "any number of elements"),
        Traffic(copy_bytes, 1, programs=0),
        SharedWork(8, 2, group="performance"),
    ],
    hints=[
        "The report names a line, two programs and an element. Why do both programs go to that element?",
        "Compare the first line with double_kernel's: there, each program starts at another place. Then count the programs.",
        "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), and triton.cdiv(n, BLOCK) programs in place of n // BLOCK.",
    ],
    mistakes=[
        same_elements,
        ends_early(lambda x: x.double()),
        WITHOUT_A_GRID,
    ],
)

EXERCISES = {
    exercise.id: exercise for exercise in (add_one, num_programs, predictions, warps_needed, fixed_copy, myths)
}
