// Threads of a threadgroup as fibers of one thread, 32 to a SIMD group. They take turns in an order drawn from the
// launch's seed, and change turns where they wait for each other. All lanes of a group must wait at the same place.
#pragma once

typedef unsigned long metile_word;

#define METILE_CONVERGENT __attribute__((noinline, convergent))

extern "C" {
void* aligned_alloc(metile_word, metile_word);
int snprintf(char*, metile_word, const char*, ...);
// A conversion that not every C library comes with: to nearest, ties to even.
__attribute__((weak, visibility("hidden"))) __bf16 __truncsfbf2(float x) {
    unsigned bits;
    __builtin_memcpy(&bits, &x, 4);
    const unsigned rounded = x != x ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
    const unsigned short top = (unsigned short)(rounded >> 16);
    __bf16 to;
    __builtin_memcpy(&to, &top, 2);
    return to;
}
}

namespace metile_threads {

enum { lanes = 32, most = 1024, slot = 64, stack = 256 << 10, shared_most = 32 << 10, guard = 1024 };
enum class State { ready, at_simd, at_barrier, done };

struct Fiber {
    void* top;
    State state;
    const void* place;
    unsigned turns;
};

// What is run: set by the glue after the kernel.
struct Launch {
    const void* arguments;
    void* const* buffers;
    unsigned groups[3];
    unsigned position[3];
    unsigned threads;
    unsigned shared_bytes;
};

static Launch launch;
static Fiber fibers[most];
static Fiber* current;
static void* scheduler;
static unsigned char* stacks;
static unsigned char published[2][most][slot];
__attribute__((aligned(128))) static unsigned char shared[shared_most + guard];
static unsigned char elements[64], holders[64];
static metile_word random_state;
static const char* fault;

void kernel(unsigned lane, unsigned warp);

inline metile_word draw() {
    metile_word z = random_state += 0x9e3779b97f4a7c15ul;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
    return z ^ (z >> 31);
}
inline bool chance() { return draw() % 4 == 0; }
template <class T> inline void shuffle(T* items, unsigned count) {
    for (unsigned n = count; n > 1; --n) {
        const unsigned other = draw() % n;
        const T item = items[n - 1];
        items[n - 1] = items[other];
        items[other] = item;
    }
}

#if defined(__x86_64__)
__attribute__((naked, noinline)) inline void change(void**, void*) {
    asm volatile("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
                 "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
                 "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n retq\n");
}
enum { saved = 6 };
#elif defined(__aarch64__)
__attribute__((naked, noinline)) inline void change(void**, void*) {
    asm volatile("sub sp, sp, #160\n"
                 "stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n stp x25, x26, [sp, #48]\n"
                 "stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n"
                 "stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
                 "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
                 "ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n ldp x25, x26, [sp, #48]\n"
                 "ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n"
                 "ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
                 "add sp, sp, #160\n ret\n");
}
enum { saved = 20 };
#else
#error "there is no change of fibers for this processor"
#endif

inline unsigned number() { return unsigned(current - fibers); }
inline unsigned lane() { return number() % lanes; }

// Ends a fiber's turn.
inline void yield(State state, const void* place) {
    current->state = state;
    current->place = place;
    change(&current->top, scheduler);
}
// Until all lanes of the SIMD group, or all threads, are there.
inline void wait(State state, const void* place) {
    if (state == State::at_simd) ++current->turns;
    yield(state, place);
}
// Nobody can publish again before all have read, as they wait in between: two sets of slots are enough.
inline void publish(const void* value, unsigned size) {
    __builtin_memcpy(published[current->turns % 2][number()], value, size);
}
// What a lane published before the last wait.
inline void read(unsigned lane, void* value, unsigned size) {
    const unsigned from = number() / lanes * lanes + lane % lanes;
    __builtin_memcpy(value, published[(current->turns - 1) % 2][from], size);
}
// Lanes meet, and must all have passed the same address.
inline void agree(const void* address, const void* place) {
    publish(&address, sizeof address);
    wait(State::at_simd, place);
    const void* first;
    read(0, &first, sizeof first);
    if (first != address) {
        fault = "lanes of a SIMD group gave different addresses of a matrix";
        yield(State::done, place);
    }
}

// The element of a matrix that this lane has as its `n`th, and who holds an element: 2 * lane + n.
inline unsigned element(unsigned n) { return elements[2 * lane() + n]; }
inline unsigned holder(unsigned element) { return holders[element]; }

inline int sum(int a, int b) { return int(unsigned(a) + unsigned(b)); }
inline unsigned sum(unsigned a, unsigned b) { return a + b; }
inline float sum(float a, float b) { return a + b; }

inline void start() {
    kernel(lane(), number() / lanes);
    yield(State::done, 0);
    __builtin_trap();
}

inline void prepare(unsigned n) {
    unsigned char* end = stacks + metile_word(n + 1) * stack;
    void** top = (void**)end - 2;
    *top = (void*)start;
    // On entry the stack is as after a call.
    top -= saved;
#if defined(__aarch64__)
    top[11] = (void*)start;
#endif
    Fiber fresh = {top, State::ready, 0, 0};
    fibers[n] = fresh;
}

inline bool ready(unsigned group) {
    for (unsigned n = group * lanes; n < (group + 1) * lanes; ++n)
        if (fibers[n].state == State::ready) return true;
    return false;
}
// Whether all of a range wait in the same way at the same place.
inline bool together(unsigned first, unsigned count, State state) {
    for (unsigned n = first; n < first + count; ++n)
        if (fibers[n].state != state || fibers[n].place != fibers[first].place) return false;
    return true;
}
inline void release(unsigned first, unsigned count) {
    for (unsigned n = first; n < first + count; ++n) fibers[n].state = State::ready;
}

// Runs a group's lanes until they wait for others, or it is the next group's turn.
inline void run_group(unsigned group) {
    do {
        unsigned char order[lanes];
        for (unsigned n = 0; n < lanes; ++n) order[n] = (unsigned char)n;
        shuffle(order, lanes);
        for (unsigned n = 0; n < lanes; ++n) {
            Fiber* next = &fibers[group * lanes + order[n]];
            if (next->state != State::ready) continue;
            current = next;
            change(&scheduler, next->top);
            if (fault) return;
        }
        if (!together(group * lanes, lanes, State::at_simd)) return;
        release(group * lanes, lanes);
    } while (!chance());
}

// One threadgroup; false if something is wrong.
inline bool run_threadgroup(unsigned threads) {
    const unsigned groups = threads / lanes;
    unsigned order[lanes];
    for (unsigned n = 0; n < groups; ++n) order[n] = n;
    for (unsigned n = 0; n < sizeof shared; ++n) shared[n] = (unsigned char)(draw() | 0x81);
    unsigned char after[guard];
    __builtin_memcpy(after, shared + launch.shared_bytes, sizeof after);
    for (unsigned n = 0; n < threads; ++n) prepare(n);
    while (true) {
        bool any = false;
        shuffle(order, groups);
        for (unsigned n = 0; n < groups; ++n) {
            if (!ready(order[n])) continue;
            any = true;
            run_group(order[n]);
            if (fault) return false;
        }
        if (any) continue;
        if (together(0, threads, State::at_barrier)) {
            release(0, threads);
            continue;
        }
        bool done = true;
        for (unsigned n = 0; n < threads; ++n) done = done && fibers[n].state == State::done;
        if (!done) {
            fault = "threads wait at different places, or for others that have ended: a barrier or an exchange in divergent flow";
            return false;
        }
        if (__builtin_memcmp(after, shared + launch.shared_bytes, sizeof after) != 0) {
            fault = "something was written beyond the end of threadgroup memory";
            return false;
        }
        return true;
    }
}

// An address as whatever a kernel takes it as.
struct Buffer {
    void* at;
    template <class T> operator T*() const { return (T*)at; }
};
struct Arguments {
    const void* at;
    template <class T> operator T&() const { return *(T*)at; }
};

} // namespace metile_threads

// Called where the sanitizers found something undefined.
extern "C" __attribute__((visibility("hidden"), used)) void metile_undefined() {
    metile_threads::fault = "undefined behaviour: an overflow, a shift, a cast, an index or a misaligned address";
    metile_threads::yield(metile_threads::State::done, 0);
    __builtin_unreachable();
}

// Runs threadgroups one after the other in an order drawn from `seed`. 0, or what is wrong as a C string.
extern "C" __attribute__((visibility("default"))) const char* metile_run(const void* arguments, void* const* buffers,
                                                                         const unsigned* groups, unsigned threads,
                                                                         unsigned shared_bytes, metile_word seed) {
    using namespace metile_threads;
    static char message[512];
    if (threads == 0 || threads > most || threads % lanes || shared_bytes > shared_most) return "no such threadgroup";
    if (!stacks) {
        stacks = (unsigned char*)aligned_alloc(4096, metile_word(most) * stack);
        if (!stacks) return "no room for the threads' stacks";
    }
    random_state = seed;
    fault = 0;
    launch.arguments = arguments;
    launch.buffers = buffers;
    launch.threads = threads;
    launch.shared_bytes = shared_bytes;
    for (int n = 0; n < 3; ++n) launch.groups[n] = groups[n];
    for (unsigned n = 0; n < 64; ++n) elements[n] = (unsigned char)n;
    shuffle(elements, 64);
    for (unsigned n = 0; n < 64; ++n) holders[elements[n]] = (unsigned char)n;
    const metile_word all = metile_word(groups[0]) * groups[1] * groups[2];
    // Steps of a number without a common divisor reach each threadgroup once.
    metile_word step = all > 1 ? draw() % all | 1 : 1, at = all ? draw() % all : 0;
    for (metile_word a = step, b = all; all > 1;) {
        while (b) { const metile_word r = a % b; a = b; b = r; }
        if (a == 1) break;
        step = a = step + 1;
        b = all;
    }
    for (metile_word n = 0; n < all; ++n) {
        at = metile_word(((unsigned __int128)at + step) % all);
        launch.position[0] = unsigned(at % groups[0]);
        launch.position[1] = unsigned(at / groups[0] % groups[1]);
        launch.position[2] = unsigned(at / groups[0] / groups[1]);
        if (!run_threadgroup(threads)) {
            snprintf(message, sizeof message, "%s (threadgroup %lu)", fault, at);
            return message;
        }
    }
    return 0;
}
