//! Memory that products pack their factors into, kept from call to call.

use crate::pages::Pages;
use metile_ir::PackedFormat;

/// Floats aligned to a cache line that only grow.
#[derive(Default)]
pub(super) struct Panel(Option<Pages>);

impl Panel {
    /// At least `len` floats with whatever values they had.
    ///
    /// # Panics
    /// If there is no room for them.
    pub(super) fn floats(&mut self, len: usize) -> *mut f32 {
        let bytes = len * size_of::<f32>();
        match &self.0 {
            Some(pages) if pages.len() >= bytes => pages.first().cast(),
            _ => {
                let pages = Pages::zeroed(bytes);
                assert!(pages.is_some(), "no room for {bytes} bytes of panels");
                let first = pages.as_ref().map_or(std::ptr::null_mut(), |p| p.first().cast());
                self.0 = pages;
                first
            }
        }
    }

    /// `len` zeros.
    pub(super) fn zeros(&mut self, len: usize) -> *mut f32 {
        let floats = self.floats(len);
        // SAFETY: `floats` has at least `len` elements.
        unsafe { std::ptr::write_bytes(floats, 0, len) };
        floats
    }
}

/// Rows of a factor arranged for a kernel, and what they are.
#[derive(Default)]
pub(super) struct Arranged {
    panel: Panel,
    key: Option<Key>,
}

/// What arranged rows were made of, and for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    /// Never 0.
    pub(super) version: u64,
    pub(super) base: *const u8,
    pub(super) row_stride: isize,
    pub(super) k_stride: isize,
    pub(super) rows: usize,
    pub(super) valid: usize,
    pub(super) shared: usize,
    /// The format of the rows, if they are packed, and of the weights.
    pub(super) formats: (Option<PackedFormat>, PackedFormat),
    pub(super) units: (usize, usize),
}

impl Arranged {
    /// `len` floats, and whether they are those of `key` already.
    pub(super) fn floats(&mut self, len: usize, key: Option<Key>) -> (*mut f32, bool) {
        let found = key.is_some() && key == self.key;
        self.key = key;
        (self.panel.floats(len), found)
    }

    /// To be called if what was to be arranged was not.
    pub(super) fn forget(&mut self) {
        self.key = None;
    }
}

/// Working memory of one thread's products. Grows to what the largest of them needs.
#[derive(Default)]
pub struct Scratch {
    /// The small factor, or the panels of `a`.
    pub(super) x: Panel,
    /// The small factor, arranged for packed weights.
    pub(super) arranged: Arranged,
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
