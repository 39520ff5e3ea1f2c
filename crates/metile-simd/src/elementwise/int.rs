//! Integer operations as the language defines them.

/// An integer dtype.
pub(crate) trait Int: Copy + PartialOrd {
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    fn rem(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn shl(self, b: Self) -> Self;
    fn shr(self, b: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn not(self) -> Self;
    fn reverse_bits(self) -> Self;
}

macro_rules! ints {
    ($($ty:ident, $abs:expr, $out:expr;)*) => {$(
        impl Int for $ty {
            #[inline(always)]
            fn add(self, b: Self) -> Self {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn sub(self, b: Self) -> Self {
                self.wrapping_sub(b)
            }
            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                self.wrapping_mul(b)
            }
            #[inline(always)]
            fn div(self, b: Self) -> Self {
                if b == 0 { 0 } else { self.wrapping_div(b) }
            }
            #[inline(always)]
            fn rem(self, b: Self) -> Self {
                if b == 0 { self } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            fn and(self, b: Self) -> Self {
                self & b
            }
            #[inline(always)]
            fn or(self, b: Self) -> Self {
                self | b
            }
            #[inline(always)]
            fn xor(self, b: Self) -> Self {
                self ^ b
            }
            #[inline(always)]
            fn shl(self, b: Self) -> Self {
                // A negative amount is a large one as well.
                if (b as u64) < u64::from($ty::BITS) { self << (b as u32) } else { 0 }
            }
            #[inline(always)]
            fn shr(self, b: Self) -> Self {
                let out: fn($ty) -> $ty = $out;
                if (b as u64) < u64::from($ty::BITS) { self >> (b as u32) } else { out(self) }
            }
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn abs(self) -> Self {
                let abs: fn($ty) -> $ty = $abs;
                abs(self)
            }
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn reverse_bits(self) -> Self {
                <$ty>::reverse_bits(self)
            }
        }
    )*};
}
ints! {
    i8, i8::wrapping_abs, |x| x >> 7;
    i16, i16::wrapping_abs, |x| x >> 15;
    i32, i32::wrapping_abs, |x| x >> 31;
    i64, i64::wrapping_abs, |x| x >> 63;
    u8, |x| x, |_| 0;
    u16, |x| x, |_| 0;
    u32, |x| x, |_| 0;
    u64, |x| x, |_| 0;
}
