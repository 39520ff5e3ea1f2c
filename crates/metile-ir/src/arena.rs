//! Typed 32-bit handles into flat vectors, so that a value can't be mistaken for an operation.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// A typed index into an [`Arena<T>`]. `Option<Handle<T>>` takes no more room than the handle.
pub struct Handle<T> {
    index_plus_one: NonZeroU32,
    _of: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// The handle of position `index`; used by arenas and by tables beside them.
    pub(crate) fn new(index: usize) -> Handle<T> {
        // An arena refuses to grow past u32::MAX - 1 entries, so neither step can overflow.
        let plus_one = u32::try_from(index).unwrap_or(u32::MAX - 1).saturating_add(1);
        Handle { index_plus_one: NonZeroU32::MIN.saturating_add(plus_one - 1), _of: PhantomData }
    }

    /// The position in the arena.
    pub fn index(self) -> usize {
        self.index_plus_one.get() as usize - 1
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}
impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index_plus_one == other.index_plus_one
    }
}
impl<T> Eq for Handle<T> {}
impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.index_plus_one.cmp(&other.index_plus_one)
    }
}
impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index_plus_one.hash(state);
    }
}
impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index())
    }
}

/// A vector that owns its entries and gives out handles.
#[derive(Clone, Debug)]
pub struct Arena<T> {
    items: Vec<T>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { items: Vec::new() }
    }
}

impl<T> Arena<T> {
    /// Adds an entry and returns its handle.
    pub fn push(&mut self, item: T) -> Handle<T> {
        let handle = Handle::new(self.items.len());
        self.items.push(item);
        handle
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether `handle` points to an entry of this arena.
    pub fn contains(&self, handle: Handle<T>) -> bool {
        handle.index() < self.items.len()
    }

    /// All handles with their entries, in order of creation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Handle<T>, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, item)| (Handle::new(i), item))
    }
}

impl<T> Index<Handle<T>> for Arena<T> {
    type Output = T;
    fn index(&self, handle: Handle<T>) -> &T {
        &self.items[handle.index()]
    }
}

impl<T> IndexMut<Handle<T>> for Arena<T> {
    fn index_mut(&mut self, handle: Handle<T>) -> &mut T {
        &mut self.items[handle.index()]
    }
}
