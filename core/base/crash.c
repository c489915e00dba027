/* SPDX-License-Identifier: MIT */
/*
** A last word: a process that dies of a fatal signal leaves its number in a file, so that whoever
** finds it dead can tell its own doing from a machine that lost power or a user who sent SIGKILL.
**
** The handler runs on a stack of its own (the fault may be an overflow of the ordinary one), calls
** only pwrite and sigaction, puts back what was there before and returns: the faulting instruction
** runs again and dies as it would have, core dump and all.  A signal that was sent, as abort does,
** does not come again by itself and is raised once more.
*/
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

enum { N_FATAL = 5, STACK_BYTES = 64 * 1024 };

static const int fatal[N_FATAL] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
static struct sigaction before[N_FATAL];
static void *stack;
static volatile sig_atomic_t note_fd = -1;
static volatile int64_t note_at;

static void on_fatal(int number, siginfo_t *info, void *context)
{
  char text[] = "signal 00\n";
  const int saved = errno;

  (void)context;
  text[7] = (char)('0' + number / 10);
  text[8] = (char)('0' + number % 10);
  const ssize_t written = pwrite(note_fd, text, sizeof text - 1, (off_t)note_at);
  (void)written;
  for (int i = 0; i < N_FATAL; i++) {
    if (fatal[i] == number) sigaction(number, &before[i], NULL);
  }
  if (info->si_code <= 0) raise(number);
  errno = saved;
}

static rg_status install(void)
{
  struct sigaction action = { .sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_ONSTACK };
  stack_t current;

  if (sigaltstack(NULL, &current) == 0 && (current.ss_flags & SS_DISABLE)) {
    stack = malloc(STACK_BYTES);
    if (!stack) return rg_fail(RG_ENOMEM, "crash note: no memory for %d bytes", STACK_BYTES);
    const stack_t own = { .ss_sp = stack, .ss_size = STACK_BYTES };
    if (sigaltstack(&own, NULL) != 0) {
      free(stack);
      stack = NULL;
      return rg_fail(RG_ESYS, "crash note: the system refused a signal stack (errno %d)", errno);
    }
  }
  sigfillset(&action.sa_mask);
  for (int i = 0; i < N_FATAL; i++) {
    if (sigaction(fatal[i], &action, &before[i]) == 0) continue;
    while (i-- > 0)
      sigaction(fatal[i], &before[i], NULL);
    return rg_fail(RG_ESYS, "crash note: the system refused a handler (errno %d)", errno);
  }
  return RG_OK;
}

static void uninstall(void)
{
  for (int i = 0; i < N_FATAL; i++)
    sigaction(fatal[i], &before[i], NULL);
  if (stack) {
    const stack_t none = { .ss_flags = SS_DISABLE };
    sigaltstack(&none, NULL);
    free(stack);
    stack = NULL;
  }
}

rg_status rg_crash_note(int32_t fd, int64_t at)
{
  if (at < 0) return rg_fail(RG_EARG, "crash note: offset %lld is negative", (long long)at);
  if (fd >= 0 && note_fd < 0) RG_TRY(install());
  if (fd < 0 && note_fd >= 0) uninstall();
  note_at = at;
  note_fd = fd;
  return RG_OK;
}
