//! Barriers, counters, deadlocks, races, and what programs tell people.

mod interp_support;

use interp_support::{Memory, tensor};
use metile_ir::Diagnostic;
use metile_ir::interp::{Failure, MAX_WAITING, Options};

/// Runs on all of `order_seed`'s kinds; gives the races found in the grid's order.
fn races(text: &str, grid: u64, memory: &[&[i32]]) -> Vec<Diagnostic> {
    let mut first = Vec::new();
    for order_seed in [None, Some(3), Some(8), Some(21)] {
        let mut buffers = Memory::new();
        for data in memory {
            buffers = buffers.with(data);
        }
        let arguments: Vec<_> =
            memory.iter().enumerate().map(|(n, d)| tensor(n, &[d.len() as u64])).collect();
        let options = Options { order_seed, ..Options::default() };
        let outcome = buffers.run_with(options, text, [grid, 1, 1], &arguments).unwrap();
        if order_seed.is_none() {
            first = outcome.warnings;
        } else {
            assert_eq!(first.is_empty(), outcome.warnings.is_empty(), "in order {order_seed:?}");
        }
    }
    first
}

#[test]
fn programs_that_write_one_element_race() {
    let text = "file 0 \"race.rs\"
      kernel @clash(%unused: mut tensor<i32, 1>, %out: mut tensor<i32, 1>) {
        %p = program_id 0 : i64
        %two = constant 2 : i64
        %at = div %p, %two : i64
        %v = cast %p : i32
        store %out[%at], %v @0:6:9
        return }";
    let found = races(text, 4, &[&[0], &[0, 0]]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].message,
        "program (1, 0, 0) writes `out` at [0] (lane 0), which program (0, 0, 0) also touches, \
         and nothing orders the two"
    );
    assert_eq!(found[0].span.unwrap().line, 6);
    assert_eq!(found[0].related[0].0.line, 6);
    let mut memory = Memory::new().with(&[0]).with(&[0, 0]);
    let options = Options { check_races: false, ..Options::default() };
    let arguments = [tensor(0, &[1]), tensor(1, &[2])];
    assert!(memory.run_with(options, text, [4, 1, 1], &arguments).unwrap().warnings.is_empty());
}

#[test]
fn reading_what_another_program_writes_races_either_way_round() {
    // Program p writes element p, and reads the element of its neighbour to the left.
    let text = "kernel @k(%x: mut tensor<i32, 1>, %out: mut tensor<i32, 1>) {
        %p = program_id 0 : i64
        %one = constant 1 : i64
        %f = constant 0 : i32
        %left = sub %p, %one : i64
        %v = cast %p : i32
        %n = load %x[%left], %f : i32
        store %x[%p], %v
        store %out[%p], %n
        return }";
    assert!(!races(text, 4, &[&[0; 4], &[0; 4]]).is_empty());
    assert!(races(text, 1, &[&[0; 4], &[0; 4]]).is_empty());
}

#[test]
fn own_elements_and_atomics_do_not_race() {
    let text = "kernel @k(%sum: mut tensor<i32, 1>, %out: mut tensor<i32, 1>) {
        %p = program_id 0 : i64
        %z = constant 0 : i64
        %f = constant 0 : i32
        %v = cast %p : i32
        store %out[%p], %v
        %own = load %out[%p], %f : i32
        %o = atomic add %sum[%z], %own : i32
        return }";
    assert!(races(text, 40, &[&[0], &[0; 40]]).is_empty());
    // A plain read of what others add to is not ordered by their atomics.
    let text = "kernel @k(%sum: mut tensor<i32, 1>) {
        %z = constant 0 : i64
        %f = constant 0 : i32
        %one = constant 1 : i32
        %r = load %sum[%z], %f : i32
        %o = atomic add %sum[%z], %one : i32
        return }";
    assert!(!races(text, 2, &[&[0]]).is_empty());
}

/// Every program writes its element, maybe waits at a barrier, and reads its neighbour's.
fn exchange(barriers: &str) -> String {
    format!(
        "kernel @exchange(%x: mut tensor<i32, 1>, %out: mut tensor<i32, 1>) persistent {{
           %p = program_id 0 : i64
           %n = num_programs 0 : i64
           %one = constant 1 : i64
           %f = constant 0 : i32
           %q = add %p, %one : i64
           %next = rem %q, %n : i64
           %v = cast %q : i32
           store %x[%p], %v
           {barriers}
           %w = load %x[%next], %f : i32
           store %out[%p], %w
           return }}"
    )
}

#[test]
fn a_grid_barrier_hands_over() {
    for barriers in ["grid_barrier", "grid_barrier\ngrid_barrier"] {
        let text = exchange(barriers);
        assert!(races(&text, 5, &[&[0; 5], &[0; 5]]).is_empty());
        let mut memory = Memory::new().with(&[0; 5]).with(&[0; 5]);
        memory.run(&text, [5, 1, 1], &[tensor(0, &[5]), tensor(1, &[5])]).unwrap();
        assert_eq!(memory.get::<i32>(1), [2, 3, 4, 5, 1]);
    }
    assert!(!races(&exchange(""), 5, &[&[0; 5], &[0; 5]]).is_empty());
}

#[test]
fn barriers_in_loops_keep_values() {
    // A running total that goes round the programs, one step a round.
    let text = "kernel @k(%x: mut tensor<i32, 1>, %out: mut tensor<i32, 1>) persistent {
        %p = program_id 0 : i64
        %n = num_programs 0 : i64
        %z = constant 0 : i64
        %one = constant 1 : i64
        %f = constant 0 : i32
        %sum = for %i = %z to %n step %one (%s = %f) -> (i32) {
          %mine = eq %i, %p : bool
          if %mine {
            %old = load %x[%z], %f : i32
            %v = cast %p : i32
            %new = add %old, %v : i32
            store %x[%z], %new
            yield
          } else { yield }
          grid_barrier
          %now = load %x[%z], %f : i32
          grid_barrier
          %t = add %s, %now : i32
          yield %t
        }
        store %out[%p], %sum
        return }";
    assert!(races(text, 4, &[&[0], &[0; 4]]).is_empty());
    let mut memory = Memory::new().with(&[0]).with(&[0; 4]);
    memory.run(text, [4, 1, 1], &[tensor(0, &[1]), tensor(1, &[4])]).unwrap();
    assert_eq!((memory.get::<i32>(0), memory.get::<i32>(1)), (vec![6], vec![10; 4]));
}

#[test]
fn a_barrier_that_a_program_never_reaches_is_a_deadlock() {
    let text = "file 0 \"b.rs\"
      kernel @k() persistent {
        %p = program_id 0 : i64
        %one = constant 1 : i64
        %most = lt %p, %one : bool
        if %most { yield } else {
          grid_barrier @0:5:11
          yield
        }
        return }";
    let failure = Memory::new().run(text, [3, 1, 1], &[]).unwrap_err();
    let Failure::Deadlock(found) = failure else { panic!("{failure}") };
    assert_eq!(
        found.message,
        "deadlock: program (1, 0, 0) waits at a grid barrier that 1 of 3 programs never reach"
    );
    assert_eq!(found.span.unwrap().line, 5);
    assert!(found.related.is_empty());
}

/// Program 0 makes `data`, raises counter 0 and at last reads `back`; the others wait for the
/// counter, read `data`, write their element of `back` and raise counter 1.
fn hand_over(raised: u32, awaited: u32, before: &str, after: &str) -> String {
    format!(
        "file 0 \"h.rs\"
         kernel @hand(%ready: counters<u32, 1>, %data: mut tensor<i32, 1>, %back: mut tensor<i32, 1>) persistent {{
           %p = program_id 0 : i64
           %z = constant 0 : i64
           %c1 = constant 1 : i64
           %f = constant 0 : i32
           %seven = constant 7 : i32
           %raise = constant {raised} : u32
           %one = constant 1 : u32
           %all = constant {awaited} : u32
           %lanes = arange : i64[40]
           %producer = eq %p, %z : bool
           if %producer {{
             {before}
             counter_add %ready, %z, %raise
             {after}
             counter_wait %ready, %c1, %all @0:20:3
             %b = load %back[%lanes], %f : i32[40] @0:21:3
             %s = reduce sum %b axis 0 : i32
             store %data[%z], %s @0:22:3
             yield
           }} else {{
             counter_wait %ready, %z, %one @0:24:3
             %v = load %data[%z], %f : i32 @0:25:3
             store %back[%p], %v @0:26:3
             counter_add %ready, %c1, %one
             yield
           }}
           return }}"
    )
}

const MAKE: &str = "store %data[%z], %seven @0:19:3";

#[test]
fn a_counter_hands_over() {
    let memory: [&[i32]; 3] = [&[0, 0], &[0], &[0; 40]];
    for n in [2u64, 33] {
        let text = hand_over(1, n as u32 - 1, MAKE, "");
        assert_eq!(races(&text, n, &memory), []);
        let mut buffers = Memory::new().with(&[0u32, 0]).with(&[0]).with(&[0; 40]);
        let arguments = [tensor(0, &[2]), tensor(1, &[1]), tensor(2, &[40])];
        buffers.run(&text, [n, 1, 1], &arguments).unwrap();
        assert_eq!(buffers.get::<i32>(1), [7 * (n as i32 - 1)]);
    }
}

#[test]
fn a_write_after_the_release_races() {
    let found = races(&hand_over(1, 1, "", MAKE), 2, &[&[0, 0], &[0], &[0; 40]]);
    assert!(found.iter().any(|d| d.message.contains("`data`")), "{found:?}");
}

#[test]
fn a_reader_that_does_not_release_is_found_behind_31_that_do() {
    let text = hand_over(1, 31, MAKE, "");
    // The last of 32 readers: the writer has acquired all the others.
    let forgetful = text.replace(
        "counter_add %ready, %c1, %one",
        "%last = constant 32 : i64
         %adds = lt %p, %last : bool
         if %adds { counter_add %ready, %c1, %one
           yield } else { yield }",
    );
    let found = races(&forgetful, 33, &[&[0, 0], &[0], &[0; 40]]);
    let message = |name: &str| found.iter().any(|d| d.message.contains(name));
    assert!(message("`back`") && message("`data`"), "{found:?}");
}

#[test]
fn an_atomic_that_nothing_releases_is_found_behind_others() {
    // All add to `sum`; all but program 1 raise the counter; program 0 waits and reads.
    let text = "kernel @k(%ready: counters<u32, 1>, %sum: mut tensor<i32, 1>) persistent {
        %p = program_id 0 : i64
        %z = constant 0 : i64
        %c1 = constant 1 : i64
        %f = constant 0 : i32
        %v = constant 1 : i32
        %one = constant 1 : u32
        %two = constant 2 : u32
        %o = atomic add %sum[%z], %v : i32
        %raises = SKIP %p, %c1 : bool
        if %raises { counter_add %ready, %z, %one
          yield } else { yield }
        %reads = eq %p, %z : bool
        if %reads {
          counter_wait %ready, %z, %two
          %r = load %sum[%z], %f : i32
          yield } else { yield }
        return }";
    let all = text.replace("SKIP", "ge").replace("%raises = ge %p, %c1", "%raises = ge %p, %z");
    assert_eq!(races(&all.replace("constant 2 : u32", "constant 4 : u32"), 4, &[&[0], &[0]]), []);
    assert!(!races(&text.replace("SKIP", "gt"), 4, &[&[0], &[0]]).is_empty());
}

#[test]
fn release_and_acquire_pass_on_what_was_acquired() {
    // 0 writes and raises counter 0; 1 waits for it and raises counter 1; 2 waits for that and reads.
    let text = "kernel @k(%c: counters<u32, 1>, %x: mut tensor<i32, 1>) persistent {
        %p = program_id 0 : i64
        %z = constant 0 : i64
        %l = constant 1 : i64
        %m = constant 2 : i64
        %f = constant 0 : i32
        %v = constant 5 : i32
        %one = constant 1 : u32
        %first = eq %p, %z : bool
        %second = eq %p, %l : bool
        if %first { store %x[%z], %v
          counter_add %c, %z, %one
          yield } else {
          if %second { counter_wait %c, %z, %one
            counter_add %c, %l, %one
            yield } else {
            counter_wait %c, %l, %one
            %r = load %x[%z], %f : i32
            %ok = eq %r, %v : bool
            assert %ok, \"passed on\"
            yield }
          yield }
        return }";
    assert_eq!(races(text, 3, &[&[0, 0], &[0]]), []);
    let other = text.replace("if %second { counter_wait %c, %z, %one", "if %second {");
    let mut memory = Memory::new().with(&[0, 0]).with(&[0]);
    let found =
        memory.run(&other, [3, 1, 1], &[tensor(0, &[2]), tensor(1, &[1])]).unwrap().warnings;
    assert_eq!(found.len(), 1);
}

#[test]
fn a_counter_nobody_raises_is_a_deadlock() {
    let text = hand_over(0, 9, MAKE, "");
    let mut buffers = Memory::new().with(&[0u32, 0]).with(&[0]).with(&[0; 40]);
    let arguments = [tensor(0, &[2]), tensor(1, &[1]), tensor(2, &[40])];
    let failure = buffers.run(&text, [3, 1, 1], &arguments).unwrap_err();
    let Failure::Deadlock(found) = failure else { panic!("{failure}") };
    assert_eq!(
        found.message,
        "deadlock: program (0, 0, 0) waits for counter 1 of `ready` to reach 9, but it stays at 0"
    );
    assert_eq!((found.span.unwrap().line, found.related[0].0.line), (20, 24));
    assert_eq!(buffers.get::<i32>(1), [7], "what was written stays written");
}

#[test]
fn counters_outside_do_nothing_and_wrap() {
    let text = "kernel @k(%c: counters<u32, 1>) persistent {
        %far = constant 9 : i64
        %low = constant -1 : i64
        %z = constant 0 : i64
        %big = constant 4294967295 : u32
        counter_add %c, %far, %big
        counter_wait %c, %low, %big
        counter_add %c, %z, %big
        return }";
    let mut memory = Memory::new().with(&[3u32]);
    memory.run(text, [1, 1, 1], &[tensor(0, &[1])]).unwrap();
    assert_eq!(memory.get::<u32>(0), [2]);
}

#[test]
fn the_grid_does_not_decide_how_much_is_kept() {
    let text = "kernel @k() persistent { grid_barrier\nreturn }";
    let many = MAX_WAITING as u64 + 1;
    let failure = Memory::new().run(text, [many, 1 << 10, 1], &[]).unwrap_err();
    assert!(matches!(failure, Failure::TooManyWaiting), "{failure}");
    // Programs that do not wait are not kept.
    let text = "kernel @k() persistent { return }";
    assert_eq!(Memory::new().run(text, [many, 2, 1], &[]).unwrap().steps, 2 * many);
}

#[test]
fn steps_are_limited() {
    let text = "kernel @k() {
        %t = constant true : bool
        while { condition %t } do { yield }
        return }";
    let options = Options { step_limit: Some(1000), ..Options::default() };
    let failure = Memory::new().run_with(options, text, [1, 1, 1], &[]).unwrap_err();
    assert!(matches!(failure, Failure::StepLimit(1000)), "{failure}");
    let options = Options { step_limit: Some(4), ..Options::default() };
    let text = "kernel @k() {\n%t = constant true : bool\nreturn }";
    assert_eq!(Memory::new().run_with(options.clone(), text, [2, 1, 1], &[]).unwrap().steps, 4);
    assert!(Memory::new().run_with(options, text, [3, 1, 1], &[]).is_err());
}

#[test]
fn assertions_name_program_and_lane() {
    let text = "file 0 \"a.rs\"
      kernel @check() {
        %p = program_id 1 : i64
        %b = broadcast %p : i64[4]
        %i = arange : i64[4]
        %s = add %b, %i : i64[4]
        %four = constant 4 : i64[4]
        %ok = lt %s, %four : bool[4]
        assert %ok, \"below four\" @0:8:5
        return }";
    let failure = Memory::new().run(text, [1, 3, 1], &[]).unwrap_err();
    let Failure::Assertion(found) = failure else { panic!("{failure}") };
    assert_eq!(found.message, "assertion failed in program (0, 1, 0) (lane 3): below four");
    assert_eq!((found.kernel.as_str(), found.span.unwrap().line), ("check", 8));
}

#[test]
fn prints() {
    let text = "kernel @k(%x: f32) {
        %p = program_id 0 : i64
        %i = arange : i64[6]
        %m = reshape %i : i64[2, 3]
        %c = reshape %i : i64[3, 1, 2]
        %t = constant true : bool
        print \"{}: x = {}, {}\", %p, %x, %t
        print \"{} and {}\", %m, %c
        print \"done\"
        return }";
    let x = metile_ir::interp::Argument::Scalar(metile_ir::Scalar::f32(-0.0));
    let outcome = Memory::new().run(text, [2, 1, 1], &[x]).unwrap();
    let tiles = "[[0, 1, 2], [3, 4, 5]] and [[[0, 1]], [[2, 3]], [[4, 5]]]";
    assert_eq!(
        outcome.printed,
        ["0: x = -0.0, true", tiles, "done", "1: x = -0.0, true", tiles, "done"]
    );
    let text = "kernel @k() {\n%i = arange : i64[2000]\nprint \"{}\", %i\nreturn }";
    let line = Memory::new().run(text, [1, 1, 1], &[]).unwrap().printed.remove(0);
    assert!(line.starts_with("[0, 1, ") && line.ends_with("1022, 1023, …]"), "{line}");
}
