//! Any text: the parser refuses it, or what it reads prints and reads back as the same program. The
//! verifier takes whatever the parser gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metile_ir::tile::parse::parse;
use metile_ir::tile::print::{Options, print};
use metile_ir::tile::same::{same_program, same_program_with_locations};
use metile_ir::tile::verify::verify;

fuzz_target!(|text: &str| {
    let kernel = match parse("fuzz", text) {
        Ok(kernel) => kernel,
        Err(error) => {
            // What a person would see; a text with a very long line is left out.
            if text.len() < 1 << 15 {
                let _ = error.render(&[metile_ir::tile::parse::source("fuzz", text)]);
            }
            return;
        }
    };
    for locations in [false, true] {
        let printed = print(&kernel, Options { locations });
        let read = match parse("printed", &printed) {
            Ok(read) => read,
            Err(error) => panic!("{error}\n{printed}"),
        };
        let compare = if locations { same_program_with_locations } else { same_program };
        assert_eq!(compare(&kernel, &read), Ok(()), "{printed}");
        assert_eq!(print(&read, Options { locations }), printed);
    }
    if let Err(errors) = verify(kernel) {
        assert!(!errors.is_empty());
    }
});
