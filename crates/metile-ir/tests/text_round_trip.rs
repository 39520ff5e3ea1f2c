//! Printing and reading back: every operation, names, locations, constants.

use metile_ir::tile::print::{Options, print};
use metile_ir::tile::same::{same_program, same_program_with_locations};
use metile_ir::tile::{
    Access, AtomicOp, BinaryOp, Builder, CompareOp, Kernel, OpKind, Precision, ReduceOp, ScanOp,
    Shape, TensorType, TileType, Type, UnaryOp, Value, parse::parse,
};
use metile_ir::{DType, Format, PackedFormat, Scalar, SourceFile, Span};

/// Which variant it is. A new variant does not compile here until [`samples`] has it too.
fn variant(kind: &OpKind) -> usize {
    match kind {
        OpKind::ProgramId(_) => 0,
        OpKind::NumPrograms(_) => 1,
        OpKind::Constant(_) => 2,
        OpKind::Arange => 3,
        OpKind::Unary(_) => 4,
        OpKind::Binary(_) => 5,
        OpKind::Compare(_) => 6,
        OpKind::Select => 7,
        OpKind::Fma => 8,
        OpKind::Cast => 9,
        OpKind::Bitcast => 10,
        OpKind::Broadcast => 11,
        OpKind::Reshape => 12,
        OpKind::Transpose(_) => 13,
        OpKind::Slice { .. } => 14,
        OpKind::Cat { .. } => 15,
        OpKind::Gather { .. } => 16,
        OpKind::Reduce { .. } => 17,
        OpKind::Scan { .. } => 18,
        OpKind::Dot { .. } => 19,
        OpKind::Dim { .. } => 20,
        OpKind::Narrow { .. } => 21,
        OpKind::Pick { .. } => 22,
        OpKind::ListItem => 23,
        OpKind::Load { .. } => 24,
        OpKind::Store { .. } => 25,
        OpKind::LoadTile => 26,
        OpKind::StoreTile => 27,
        OpKind::AtomicRmw(_) => 28,
        OpKind::AtomicCas => 29,
        OpKind::CounterAdd => 30,
        OpKind::CounterWait => 31,
        OpKind::GridBarrier => 32,
        OpKind::Assert { .. } => 33,
        OpKind::Print { .. } => 34,
        OpKind::For => 35,
        OpKind::While => 36,
        OpKind::If => 37,
        OpKind::Yield => 38,
        OpKind::Condition => 39,
        OpKind::Return => 40,
    }
}
const VARIANTS: usize = 41;

/// The element after `x`, for enums whose every member must be tried: exhaustive like [`variant`].
fn unary_after(x: UnaryOp) -> Option<UnaryOp> {
    use UnaryOp::*;
    Some(match x {
        Neg => Abs,
        Abs => Not,
        Not => ReverseBits,
        ReverseBits => Exp,
        Exp => Exp2,
        Exp2 => Log,
        Log => Log2,
        Log2 => Sqrt,
        Sqrt => Rsqrt,
        Rsqrt => Sin,
        Sin => Cos,
        Cos => Tanh,
        Tanh => Sigmoid,
        Sigmoid => Erf,
        Erf => Floor,
        Floor => Ceil,
        Ceil => Round,
        Round => return None,
    })
}
fn binary_after(x: BinaryOp) -> Option<BinaryOp> {
    use BinaryOp::*;
    Some(match x {
        Add => Sub,
        Sub => Mul,
        Mul => Div,
        Div => Rem,
        Rem => Min,
        Min => Max,
        Max => And,
        And => Or,
        Or => Xor,
        Xor => Shl,
        Shl => Shr,
        Shr => return None,
    })
}
fn compare_after(x: CompareOp) -> Option<CompareOp> {
    use CompareOp::*;
    Some(match x {
        Eq => Ne,
        Ne => Lt,
        Lt => Le,
        Le => Gt,
        Gt => Ge,
        Ge => return None,
    })
}
fn reduce_after(x: ReduceOp) -> Option<ReduceOp> {
    use ReduceOp::*;
    Some(match x {
        Sum => Max,
        Max => Min,
        Min => ArgMax,
        ArgMax => ArgMin,
        ArgMin => Any,
        Any => All,
        All => return None,
    })
}
fn scan_after(x: ScanOp) -> Option<ScanOp> {
    Some(match x {
        ScanOp::Sum => ScanOp::Max,
        ScanOp::Max => ScanOp::Min,
        ScanOp::Min => return None,
    })
}
fn atomic_after(x: AtomicOp) -> Option<AtomicOp> {
    Some(match x {
        AtomicOp::Add => AtomicOp::Max,
        AtomicOp::Max => AtomicOp::Min,
        AtomicOp::Min => AtomicOp::Exchange,
        AtomicOp::Exchange => return None,
    })
}
fn all<T: Copy>(first: T, after: fn(T) -> Option<T>) -> impl Iterator<Item = T> {
    std::iter::successors(Some(first), move |&x| after(x))
}

fn tile(dtype: DType, sides: &[usize]) -> Type {
    Type::Tile(TileType::new(dtype, Shape::new(sides).unwrap()))
}
fn tensor(format: Format, rank: u8, access: Access) -> Type {
    Type::Tensor(TensorType { format, rank, access })
}

/// Each simple operation with its number of operands and whether it has a result; the types of
/// operands are not the text's business.
fn simple_samples() -> Vec<(OpKind, usize, bool)> {
    let mut s = vec![
        (OpKind::ProgramId(2), 0, true),
        (OpKind::NumPrograms(1), 0, true),
        (OpKind::Constant(Scalar::f32(0.1)), 0, true),
        (OpKind::Arange, 0, true),
        (OpKind::Select, 3, true),
        (OpKind::Fma, 3, true),
        (OpKind::Cast, 1, true),
        (OpKind::Bitcast, 1, true),
        (OpKind::Broadcast, 1, true),
        (OpKind::Reshape, 1, true),
        (OpKind::Transpose(vec![2, 0, 1]), 1, true),
        (OpKind::Transpose(vec![]), 1, true),
        (OpKind::Slice { axis: 1, start: 4, step: 2 }, 1, true),
        (OpKind::Cat { axis: 1 }, 1, true),
        (OpKind::Cat { axis: 0 }, 3, true),
        (OpKind::Gather { axis: 3 }, 2, true),
        (OpKind::Dim { axis: 1 }, 1, true),
        (OpKind::Narrow { axis: 0 }, 3, true),
        (OpKind::Pick { axis: 2 }, 2, true),
        (OpKind::ListItem, 2, true),
        (OpKind::AtomicCas, 4, true),
        (OpKind::CounterAdd, 3, false),
        (OpKind::CounterWait, 3, false),
        (OpKind::GridBarrier, 0, false),
        (OpKind::Assert { message: "no \"way\": \\ \n\t\r\u{1}\u{7f} é".into() }, 1, false),
        (OpKind::Print { format: "plain".into() }, 0, false),
        (OpKind::Print { format: "{} and {} // not a comment".into() }, 2, false),
    ];
    for masked in [false, true] {
        for coordinates in [0, 1, 3] {
            let operands = 2 + coordinates + usize::from(masked);
            s.push((OpKind::Load { masked }, operands, true));
            s.push((OpKind::Store { masked }, operands, false));
        }
    }
    s.push((OpKind::LoadTile, 4, true));
    s.push((OpKind::StoreTile, 4, false));
    for transpose_a in [false, true] {
        for transpose_b in [false, true] {
            s.push((OpKind::Dot { transpose_a, transpose_b }, 3, true));
        }
    }
    s.extend(all(UnaryOp::Neg, unary_after).map(|op| (OpKind::Unary(op), 1, true)));
    s.extend(all(BinaryOp::Add, binary_after).map(|op| (OpKind::Binary(op), 2, true)));
    s.extend(all(CompareOp::Eq, compare_after).map(|op| (OpKind::Compare(op), 2, true)));
    s.extend(all(ReduceOp::Sum, reduce_after).map(|op| (OpKind::Reduce { op, axis: 1 }, 1, true)));
    s.extend(all(ScanOp::Sum, scan_after).map(|op| (OpKind::Scan { op, axis: 0 }, 1, true)));
    s.extend(all(AtomicOp::Add, atomic_after).map(|op| (OpKind::AtomicRmw(op), 3, true)));
    s
}

fn name(b: &mut Builder, value: Value, hint: &str) {
    b.kernel_mut().values[value].name = Some(hint.to_owned());
}

/// A kernel with every operation in every form.
fn everything() -> Kernel {
    let mut b = Builder::new("everything");
    b.kernel_mut().persistent = true;
    b.kernel_mut().precision = Precision::Relaxed;
    b.kernel_mut().files = vec![SourceFile::named("src/a \"b\".rs"), SourceFile::named("c.rs")];
    let f16 = Format::Plain(DType::F16);
    let list = TensorType { format: Format::Plain(DType::F32), rank: 3, access: Access::Read };
    let p = [
        b.parameter("x", tensor(f16, 2, Access::Read)),
        b.parameter("out", tensor(f16, 2, Access::ReadWrite)),
        b.parameter("counters", tensor(Format::Plain(DType::U32), 1, Access::Counter)),
        b.parameter("x", Type::TensorList(list)),
        b.parameter("1 odd-näme", tile(DType::F32, &[])),
    ];
    for format in PackedFormat::all() {
        b.parameter("", tensor(Format::Packed(format), 4, Access::Read));
    }
    for access in [Access::ReadWrite, Access::Counter] {
        b.parameter("l", Type::TensorList(TensorType { access, ..list }));
    }
    for (n, (kind, operands, result)) in simple_samples().into_iter().enumerate() {
        let place = Span { file: n as u32 % 2, line: n as u32 + 1, column: 7 };
        b.set_span(Some(place).filter(|_| n % 3 != 0));
        let operands: Vec<Value> = p.iter().copied().cycle().skip(n).take(operands).collect();
        let types = [tile(DType::F32, &[4, n + 1])];
        b.control(kind, &operands, vec![], if result { &types } else { &[] });
    }
    loops(&mut b, p[4]);
    b.control(OpKind::Return, &[], vec![], &[]);
    b.finish()
}

fn loops(b: &mut Builder, x: Value) {
    let (i64s, f32s, pair) = (
        tile(DType::I64, &[]),
        tile(DType::F32, &[]),
        [tile(DType::F32, &[]), tile(DType::I8, &[3])],
    );
    for carried in [&pair[..0], &pair[..1], &pair[..]] {
        let init = vec![x; carried.len()];
        let body = b.new_region();
        let out = b.enter(body);
        let index = b.argument(body, i64s, Some("start".into()));
        let mut inner: Vec<Value> =
            carried.iter().map(|&t| b.argument(body, t, Some("peak".into()))).collect();
        // A `while` in the `for`, and an `if` in the `while`.
        let (test, step) = (b.new_region(), b.new_region());
        b.enter(test);
        let tested: Vec<Value> = carried.iter().map(|&t| b.argument(test, t, None)).collect();
        b.control(OpKind::Condition, &[vec![x], tested].concat(), vec![], &[]);
        b.enter(step);
        let stepped: Vec<Value> = carried.iter().map(|&t| b.argument(step, t, None)).collect();
        let (yes, no) = (b.new_region(), b.new_region());
        for region in [yes, no] {
            b.enter(region);
            b.control(OpKind::Yield, &stepped, vec![], &[]);
        }
        b.enter(step);
        b.control(OpKind::If, &[index], vec![yes, no], carried);
        b.control(OpKind::Yield, &stepped, vec![], &[]);
        b.enter(body);
        let op = b.control(OpKind::While, &inner, vec![test, step], carried);
        inner.clone_from(&b.kernel().ops[op].results);
        b.control(OpKind::Yield, &inner, vec![], &[]);
        b.enter(out);
        let op = b.control(OpKind::For, &[vec![x, x, x], init].concat(), vec![body], carried);
        for value in b.kernel().ops[op].results.clone() {
            name(b, value, "peak");
        }
    }
    b.control(OpKind::Unary(UnaryOp::Neg), &[x], vec![], &[f32s]);
}

/// Checks that the text of `kernel` reads back to the same text and program; returns the text.
#[track_caller]
fn round_trip(kernel: &Kernel) -> String {
    for locations in [false, true] {
        let text = print(kernel, Options { locations });
        let read = parse("test", &text).unwrap_or_else(|e| {
            panic!("{}\n{text}", e.render(&[metile_ir::tile::parse::source("test", &text)]))
        });
        assert_eq!(print(&read, Options { locations }), text);
        let compare = if locations { same_program_with_locations } else { same_program };
        assert_eq!(compare(kernel, &read), Ok(()), "{text}");
        assert_eq!(compare(&read, kernel), Ok(()), "{text}");
    }
    kernel.to_string()
}

#[test]
fn every_operation_reads_back() {
    let kernel = everything();
    let mut found = [false; VARIANTS];
    for op in kernel.walk(kernel.body) {
        found[variant(&kernel.ops[op].kind)] = true;
    }
    assert_eq!(found.iter().position(|f| !f), None, "a variant of OpKind has no sample");
    round_trip(&kernel);
}

/// A constant as the text form shows it.
#[track_caller]
fn constant(scalar: Scalar, text: &str) {
    let mut b = Builder::new("k");
    b.control(OpKind::Constant(scalar), &[], vec![], &[tile(scalar.dtype(), &[4, 8])]);
    b.control(OpKind::Return, &[], vec![], &[]);
    let printed = round_trip(&b.finish());
    let expected = format!(
        "kernel @k() {{\n  %0 = constant {text} : {}[4, 8]\n  return\n}}\n",
        scalar.dtype()
    );
    assert_eq!(printed, expected);
}

#[test]
fn constants_read_back_to_the_bit() {
    constant(Scalar::bool(true), "true");
    constant(Scalar::int(DType::I8, -128), "-128");
    constant(Scalar::int(DType::U64, u64::MAX.into()), "18446744073709551615");
    constant(Scalar::i64(i64::MIN), "-9223372036854775808");
    constant(Scalar::f32(-0.0), "-0.0");
    constant(Scalar::f32(f32::INFINITY), "inf");
    constant(Scalar::f32(f32::NEG_INFINITY), "-inf");
    constant(Scalar::f32(f32::MAX), "3.4028235e38");
    constant(Scalar::f32(f32::from_bits(1)), "1e-45");
    constant(Scalar::from_bits(DType::F32, 0xffc0_0001), "nan:0xffc00001");
    constant(Scalar::from_bits(DType::F16, 0x7e00), "nan:0x7e00");
    constant(Scalar::from_bits(DType::BF16, 0x7f81), "nan:0x7f81");
    // Every f16 and bf16 there is, in one kernel each.
    for dtype in [DType::F16, DType::BF16] {
        let mut b = Builder::new("k");
        for bits in 0..=u64::from(u16::MAX) {
            let kind = OpKind::Constant(Scalar::from_bits(dtype, bits));
            b.control(kind, &[], vec![], &[tile(dtype, &[])]);
        }
        b.control(OpKind::Return, &[], vec![], &[]);
        round_trip(&b.finish());
    }
}

#[test]
fn the_form_is_as_documented() {
    let text = r#"file 0 "src/softmax.rs"
kernel @softmax(%x: tensor<f16, 2>, %out: mut tensor<f16, 2>) persistent precision(relaxed) {
  %row = program_id 0 : i64 @0:14:15
  %cols = dim %x, 1 : i64
  %0 = constant -inf : f32
  %1 = arange : i64[1024]
  %peak = for %start = %row to %cols step %cols (%peak.1 = %0) -> (f32) @0:16:5 {
    %v = load %x[%row, %1] mask %1, %0 : f16[1024]
    %2 = reduce max %v axis 0 : f32
    %3, %4 = while (%a = %2, %b = %start) -> (f32, i64) {
      condition %b, %a, %b
    } do (%c: f32, %d: i64) {
      yield %c, %d
    }
    %5 = if %4 -> (f32) @0:18:1 {
      yield %3
    } else {
      yield %peak.1
    }
    yield %5
  }
  store %out[%row, %1], %peak @0:20:5
  return
}
"#;
    let kernel = parse("test", text).unwrap();
    assert_eq!(print(&kernel, Options { locations: true }), text);
    let names: Vec<_> =
        kernel.values.iter().filter_map(|(_, v)| v.name.clone()).filter(|n| n == "peak").collect();
    assert_eq!(names.len(), 2, "the suffix is no part of the hint");
    round_trip(&kernel);
}

#[test]
fn the_parser_takes_comments_and_any_blanks() {
    let text = "// first\nkernel@\"k é\"(%a:f32)precision(strict){%a.1=neg %a:f32%b = // why\r\n\tneg %a.1 : f32 return}// last";
    let kernel = parse("test", text).unwrap();
    assert_eq!(
        round_trip(&kernel),
        "kernel @\"k é\"(%a: f32) {\n  %a.1 = neg %a : f32\n  %b = neg %a.1 : f32\n  return\n}\n"
    );
}

#[test]
fn differences_are_told() {
    let base = "kernel @k(%x: f32, %y: f32) {\n %c = lt %x, %y : bool\n %r = if %c -> (f32) { yield %x } else { %n = neg %y : f32 yield %n }\n return }";
    let differ = |from: &str, to: &str| {
        assert!(base.contains(from), "{from}");
        let (a, b) = (parse("a", base).unwrap(), parse("b", &base.replace(from, to)).unwrap());
        same_program(&a, &b).unwrap_err()
    };
    assert_eq!(differ("@k", "@l"), "the name of the kernel is k against l");
    assert_eq!(differ(") {\n", ") persistent {\n"), "`persistent` is false against true");
    assert_eq!(
        differ(") {\n", ") precision(relaxed) {\n"),
        "the precision is Strict against Relaxed"
    );
    assert_eq!(differ("%y: f32", "%y: f16"), "the type of parameter 1 is f32 against f16");
    assert_eq!(differ("lt", "le"), "operation 0 (`lt`): `lt` against `le`");
    assert_eq!(
        differ("neg %y", "neg %x"),
        "operation 1 (`if`), region 1, operation 0 (`neg`): operand 0 is %y against %x, another value"
    );
    assert_eq!(
        differ("%n = neg %y : f32 yield %n", "yield %y"),
        "operation 1 (`if`), region 1, operation 0 (`neg`): `neg` against `yield`"
    );
    assert_eq!(
        differ(" return", " grid_barrier return"),
        "operation 2 (`return`): `return` against `grid_barrier`"
    );
    let renamed = parse("b", &base.replace("%n", "%3").replace("%x", "%other")).unwrap();
    assert_eq!(same_program(&parse("a", base).unwrap(), &renamed), Ok(()));
    let moved = parse("b", &base.replace("lt %x, %y : bool", "lt %x, %y : bool @0:1:2")).unwrap();
    assert_eq!(same_program(&parse("a", base).unwrap(), &moved), Ok(()));
    assert_eq!(
        same_program_with_locations(&parse("a", base).unwrap(), &moved).unwrap_err(),
        "operation 0 (`lt`): written at None against Some(Span { file: 0, line: 1, column: 2 })"
    );
}

#[test]
fn malformed_kernels_are_shown_not_panicked_on() {
    let mut kernel = everything();
    // The body in itself, and a value of another kernel.
    let (own, first) = (kernel.body, kernel.regions[kernel.body].ops[0]);
    kernel.ops[first].kind = OpKind::While;
    kernel.ops[first].regions = vec![own];
    let mut other = Builder::new("other");
    let far = (0..100_000).map(|_| other.parameter("p", tile(DType::F32, &[]))).last().unwrap();
    kernel.ops[first].operands = vec![far];
    let text = kernel.to_string();
    assert!(
        text.contains("= %?99999) -> (f32[4, 1]) {\n    // this region is printed above\n"),
        "{text}"
    );
    assert!(parse("test", &text).is_err());
    assert!(same_program(&kernel, &kernel).is_err());
    let empty = Kernel::new("empty");
    assert_eq!(empty.to_string(), "kernel @empty() {\n}\n");
    assert!(same_program(&empty, &kernel).is_err());
}

#[test]
fn a_text_cut_anywhere_is_an_error() {
    let text = print(&everything(), Options { locations: true });
    let end = text.trim_end().len();
    for cut in 0..end {
        if let Some(part) = text.get(..cut) {
            assert!(parse("test", part).is_err(), "{part}");
        }
    }
}
