// SPDX-License-Identifier: MIT
//
// Fibers of the simulator: a stack each, a switch of fifteen instructions, and what the sanitizers
// have to be told about it. The sanitizers' functions are weak: this object is never instrumented
// itself and serves plain and instrumented kernels alike.
#include "sim.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(RGSIM_UCONTEXT)
#define RGSIM_UCONTEXT 1
#endif
#ifdef RGSIM_UCONTEXT
#include <ucontext.h>
#endif

// Default visibility: a hidden weak symbol would be taken for absent when the library is linked.
#define WEAK __attribute__((weak, visibility("default")))
extern "C" {
WEAK void *__tsan_create_fiber(unsigned flags);
WEAK void *__tsan_get_current_fiber(void);
WEAK void __tsan_switch_to_fiber(void *fiber, unsigned flags);
WEAK void __tsan_acquire(void *key);
WEAK void __tsan_release(void *key);
WEAK void __sanitizer_start_switch_fiber(void **fake_stack, const void *stack, size_t size);
WEAK void __sanitizer_finish_switch_fiber(void *fake_stack, const void **stack, size_t *size);
}

namespace sim
{

enum { STACK_BYTES = 256 << 10 };

// A switch makes no order between fibers: only barriers do, or no race would ever be seen.
enum { TSAN_NO_SYNC = 1 };

static Fiber host;
static Fiber *running = &host;
static Fiber *left; // the fiber that the last switch came from
static void (*body)(void);

Fiber *fiber_running(void)
{
  return running;
}

// The first thing after every switch, on the new stack.
static void arrive(void)
{
  if (__sanitizer_finish_switch_fiber) {
    const void *stack = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(running->fake_stack, &stack, &size);
    if (left == &host) {
      host.stack = const_cast<char *>(static_cast<const char *>(stack));
      host.size = size;
    }
  }
}

static void start(void)
{
  arrive();
  body();
  abort();
}

static char *new_stack(void)
{
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *p = mmap(nullptr, STACK_BYTES + page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED || mprotect(p, page, PROT_NONE)) {
    fprintf(stderr, "cudasim: no memory for the stack of a thread\n");
    abort();
  }
  return static_cast<char *>(p) + page;
}

// -- The switch itself -------------------------------------------------------------------

#ifndef RGSIM_UCONTEXT

// Saves what a called function has to keep, exchanges the stacks, and returns on the other one.
extern "C" RGSIM_LOCAL void rgsim_exchange(void **save, void *load);
asm(".pushsection .text\n"
    ".globl rgsim_exchange\n"
    ".hidden rgsim_exchange\n"
    ".type rgsim_exchange,@function\n"
    "rgsim_exchange:\n"
    "  push %rbp\n"
    "  push %rbx\n"
    "  push %r12\n"
    "  push %r13\n"
    "  push %r14\n"
    "  push %r15\n"
    "  mov %rsp,(%rdi)\n"
    "  mov %rsi,%rsp\n"
    "  pop %r15\n"
    "  pop %r14\n"
    "  pop %r13\n"
    "  pop %r12\n"
    "  pop %rbx\n"
    "  pop %rbp\n"
    "  ret\n"
    ".size rgsim_exchange,.-rgsim_exchange\n"
    ".popsection\n");

static void prepare(Fiber *f)
{
  void **sp = reinterpret_cast<void **>(f->stack + f->size);
  *--sp = nullptr; // start never returns; this keeps the stack aligned as the ABI wants it
  *--sp = reinterpret_cast<void *>(start);
  for (int i = 0; i < 6; i++)
    *--sp = nullptr;
  f->position = sp;
}

static void exchange(Fiber *from, Fiber *to)
{
  rgsim_exchange(&from->position, to->position);
}

#else

static ucontext_t *context(Fiber *f)
{
  if (!f->position) f->position = calloc(1, sizeof(ucontext_t));
  return static_cast<ucontext_t *>(f->position);
}

static void prepare(Fiber *f)
{
  ucontext_t *c = context(f);
  getcontext(c);
  c->uc_stack.ss_sp = f->stack;
  c->uc_stack.ss_size = f->size;
  c->uc_link = nullptr;
  makecontext(c, start, 0);
}

static void exchange(Fiber *from, Fiber *to)
{
  swapcontext(context(from), context(to));
}

#endif

Fiber *fiber_new(void (*entry)(void))
{
  body = entry;
  Fiber *f = new Fiber();
  f->stack = new_stack();
  f->size = STACK_BYTES;
  if (__tsan_create_fiber) f->tsan = __tsan_create_fiber(0);
  prepare(f);
  return f;
}

// Grids may be run by several threads of the host, one after the other.
void fiber_begin_host(void)
{
  if (__tsan_get_current_fiber) host.tsan = __tsan_get_current_fiber();
}

Fiber *fiber_host(void)
{
  return &host;
}

void fiber_switch(Fiber *to)
{
  Fiber *from = running;
  left = from;
  running = to;
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->size);
  }
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to->tsan, TSAN_NO_SYNC);
  exchange(from, to);
  arrive();
}

// -- The thread sanitizer ------------------------------------------------------------------

bool tsan_present(void)
{
  return __tsan_create_fiber != nullptr;
}

void tsan_release(void *key)
{
  if (__tsan_release) __tsan_release(key);
}

void tsan_acquire(void *key)
{
  if (__tsan_acquire) __tsan_acquire(key);
}

// The last fiber to arrive speaks for all of them, so it does not matter who they are: a mask of
// any form is exact.
void tsan_meet(Fiber *const *fibers, int n, void *key)
{
  if (!tsan_present()) return;
  for (int i = 0; i < n; i++) {
    __tsan_switch_to_fiber(fibers[i]->tsan, TSAN_NO_SYNC);
    __tsan_release(key);
  }
  for (int i = 0; i < n; i++) {
    __tsan_switch_to_fiber(fibers[i]->tsan, TSAN_NO_SYNC);
    __tsan_acquire(key);
  }
  __tsan_switch_to_fiber(running->tsan, TSAN_NO_SYNC);
}

} // namespace sim
