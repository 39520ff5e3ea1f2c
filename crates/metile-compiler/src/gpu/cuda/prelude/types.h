typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
// The bits of 16-bit floats: they are moved and converted, never computed with.
typedef unsigned short f16;
typedef unsigned short bf16;
