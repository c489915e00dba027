/* SPDX-License-Identifier: MIT */
/*
** Where handlers of signals run: on an alternate stack (sigaltstack).
**
** A handler runs on the stack of what it came upon, and code may use the stack pointer otherwise:
** oneDNN's product of f32 by AVX points it at the start of its workspace on the heap (rip in its
** code, rsp in [heap], in 3 % of the time of recipes/distill.lua).  The frame of a handler, 3 to
** 12 KiB with the vector registers, then goes over whatever lies below the workspace.  So a sample
** of the profiler or a Ctrl-C broke the heap.
**
** Compute threads take no signal that somebody sends: the system hands one to the process to the
** main thread unless that blocks it or has another before it (2 of 3,547 came to another thread),
** and who asked for a stack is that thread.
*/
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

/* The frame with the registers of AMX is 11 KiB; handlers of ours take less than one. */
enum { STACK_BYTES = 64 * 1024 };

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

/* When a thread ends. */
static void end_stack(void *stack)
{
  const stack_t none = { .ss_flags = SS_DISABLE };

  sigaltstack(&none, NULL);
  free(stack);
}

static void make_key(void)
{
  has_key = pthread_key_create(&key, end_stack) == 0;
}

static rg_status refused(int why)
{
  return rg_fail(RG_ESYS, "signals: the system refused a signal stack (errno %d)", why);
}

static rg_status give_stack(void)
{
  stack_t current;
  int code;

  if (sigaltstack(NULL, &current) != 0) return refused(errno);
  if (!(current.ss_flags & SS_DISABLE)) return RG_OK;
  pthread_once(&once, make_key);
  if (!has_key) return refused(EAGAIN);
  const stack_t own = { .ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES };
  if (!own.ss_sp) return rg_fail(RG_ENOMEM, "signals: no memory for %d bytes", STACK_BYTES);
  code = pthread_setspecific(key, own.ss_sp);
  if (code == 0 && sigaltstack(&own, NULL) != 0) {
    code = errno;
    pthread_setspecific(key, NULL);
  }
  if (code != 0) {
    free(own.ss_sp);
    return refused(code);
  }
  return RG_OK;
}

rg_status rg_signal_stack(void)
{
  struct sigaction action;

  RG_TRY(give_stack());
  for (int number = 1; number <= SIGRTMAX; number++) {
    if (sigaction(number, NULL, &action) != 0 || action.sa_flags & SA_ONSTACK ||
        action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
      continue; /* the C library keeps some to itself */
    }
    action.sa_flags |= SA_ONSTACK;
    sigaction(number, &action, NULL);
  }
  return RG_OK;
}

/* Not those that a fault raises: blocked, they would kill without the handler. */
void rg_signals_elsewhere(void)
{
  static _Thread_local bool done;
  static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
  sigset_t set;

  if (done) return;
  done = true;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
    sigdelset(&set, faults[i]);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

rg_status rg_signals_ready(int32_t threads)
{
#pragma omp parallel num_threads(threads)
  {
    if (omp_get_thread_num() > 0) rg_signals_elsewhere();
  }
  return rg_signal_stack();
}
