/* SPDX-License-Identifier: MIT */
/*
** The stack that handlers of signals run on: alternate, in each thread that asks or makes a
** primitive of oneDNN's, also for handlers that were there before.
*/
#include "tap.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/dnnl.h"

static volatile uintptr_t place; /* of a handler's frame */

static void on_signal(int number)
{
  volatile char here = (char)number;

  place = (uintptr_t)&here;
}

static void handle(int number)
{
  struct sigaction action;

  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ok(sigaction(number, &action, NULL) == 0, "a handler is installed");
}

/* Does the handler run on this thread's alternate stack? */
static bool apart(int number)
{
  stack_t stack;

  place = 0;
  raise(number);
  return sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE) &&
         place - (uintptr_t)stack.ss_sp < stack.ss_size;
}

static int flags_of(int number)
{
  struct sigaction action;

  return sigaction(number, NULL, &action) == 0 ? action.sa_flags : -1;
}

static void *asks(void *unused)
{
  stack_t mine;

  (void)unused;
  ok(!apart(SIGUSR1), "a thread begins without an alternate stack");
  ok(rg_signal_stack() == RG_OK && apart(SIGUSR1), "and has one when it has asked");
  ok(sigaltstack(NULL, &mine) == 0 && mine.ss_size >= 32768, "with room for every register");
  return NULL;
}

static char own[65536];

static void *keeps(void *unused)
{
  const stack_t given = { .ss_sp = own, .ss_size = sizeof own };
  stack_t now;

  (void)unused;
  ok(sigaltstack(&given, NULL) == 0, "a thread has a stack of its own");
  ok(rg_signal_stack() == RG_OK && apart(SIGUSR1), "handlers run there");
  ok(sigaltstack(NULL, &now) == 0 && now.ss_sp == (void *)own, "it is not replaced");
  return NULL;
}

static rg_dnnl_array matrix(int64_t rows, int64_t columns)
{
  return (rg_dnnl_array){ .size = { rows, columns },
                          .stride = { columns, 1 },
                          .ndim = 2,
                          .form = RG_DNNL_AS_IS,
                          .dtype = RG_F32,
                          .inner = RG_F32 };
}

/* A primitive in a thread of its own, behind a handler that somebody else has installed. */
static void *multiplies(void *unused)
{
  rg_dnnl_spec spec;
  rg_dnnl *primitive = NULL;

  (void)unused;
  memset(&spec, 0, sizeof spec);
  spec.kind = RG_DNNL_MATMUL;
  spec.n_threads = 1;
  spec.array[RG_DNNL_SRC] = matrix(8, 16);
  spec.array[RG_DNNL_WEIGHT] = matrix(16, 12);
  spec.array[RG_DNNL_DST] = matrix(8, 12);
  handle(SIGUSR2);
  ok(!apart(SIGUSR2), "a handler runs on the ordinary stack");
  is_status(rg_dnnl_new(&spec, &primitive), RG_OK, "a primitive is made");
  ok(apart(SIGUSR2), "and then on the alternate one");
  rg_dnnl_release(primitive);
  return NULL;
}

static void run(void *(*f)(void *), void *argument)
{
  pthread_t thread;

  if (pthread_create(&thread, NULL, f, argument) != 0) tap_bail("no thread");
  pthread_join(thread, NULL);
}

/* Compute threads: which signals the second of them blocks. */
static bool second_blocks(int number)
{
  bool blocks = false;

#pragma omp parallel num_threads(2)
  {
    sigset_t set;

    if (omp_get_thread_num() == 1) {
      pthread_sigmask(SIG_SETMASK, NULL, &set);
      blocks = sigismember(&set, number) == 1;
    }
  }
  return blocks;
}

static bool nothing(void *work, int64_t from, int64_t to)
{
  (void)work;
  return from <= to;
}

static void *computes(void *how)
{
  ok(!second_blocks(SIGINT), "a compute thread takes signals");
  if (how == NULL) {
    is_status(rg_signals_ready(2), RG_OK, "until it multiplies");
  } else {
    is_status(rg_parallel(2, 2, nothing, NULL), RG_OK, "until it computes");
  }
  ok(second_blocks(SIGINT) && second_blocks(SIGPROF) && second_blocks(SIGTERM), "then none");
  ok(!second_blocks(SIGSEGV) && !second_blocks(SIGBUS) && !second_blocks(SIGFPE),
     "but those of its own faults");
  sigset_t mine;
  ok(pthread_sigmask(SIG_SETMASK, NULL, &mine) == 0 && !sigismember(&mine, SIGINT),
     "whoever calls takes them");
  return NULL;
}

static char word;

int main(void)
{
  handle(SIGUSR1);
  signal(SIGHUP, SIG_IGN);
  run(asks, NULL);
  run(asks, NULL); /* another gets another */
  run(keeps, NULL);
  ok((flags_of(SIGUSR1) & (SA_RESTART | SA_ONSTACK)) == (SA_RESTART | SA_ONSTACK),
     "a handler keeps its other flags");
  is_int(flags_of(SIGHUP) & SA_ONSTACK, 0, "what is ignored is let alone");
  is_int(flags_of(SIGWINCH) & SA_ONSTACK, 0, "what nobody handles as well");
  ok(!apart(SIGUSR1), "the thread that did not ask has no alternate stack");
  ok(rg_signal_stack() == RG_OK && rg_signal_stack() == RG_OK && apart(SIGUSR1),
     "asking twice is asking once");
  run(multiplies, NULL);
  run(computes, NULL);
  run(computes, &word);
  return done();
}
