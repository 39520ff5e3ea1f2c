//! Memory that products pack their factors into, kept from call to call.

/// A cache line of floats, which makes a vector of them aligned.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Floats aligned to a cache line that only grow.
#[derive(Default)]
pub(super) struct Panel(Vec<Line>);

impl Panel {
    /// At least `len` floats with whatever values they had.
    pub(super) fn floats(&mut self, len: usize) -> *mut f32 {
        let lines = len.div_ceil(16);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0.0; 16]));
        }
        self.0.as_mut_ptr().cast()
    }

    /// `len` zeros.
    pub(super) fn zeros(&mut self, len: usize) -> *mut f32 {
        let floats = self.floats(len);
        // SAFETY: `floats` has at least `len` elements.
        unsafe { std::ptr::write_bytes(floats, 0, len) };
        floats
    }
}

/// Working memory of one thread's products. Grows to what the largest of them needs.
#[derive(Default)]
pub struct Scratch {
    /// The small factor, or the panels of `a`.
    pub(super) x: Panel,
    /// Rows of the large factor, or the panels of `b`.
    pub(super) w: Panel,
    /// Rows on their way into panels.
    pub(super) strip: Panel,
    /// Results of rows, columns and pairs that are not added directly.
    pub(super) y: Panel,
    /// Scales of packed rows.
    pub(super) scales: Panel,
    /// What out-of-shape columns get.
    pub(super) edge: Panel,
}

impl Scratch {
    /// Nothing allocated yet.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}
