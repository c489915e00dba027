/* SPDX-License-Identifier: MIT */
/*
** A last word: a process that dies of a fatal signal leaves its number in a file, so that whoever
** finds it dead can tell its own doing from a machine that lost power or a user who sent SIGKILL.
**
** The handler runs on an alternate stack (the fault may be an overflow of the ordinary one), calls
** only pwrite and sigaction, puts back what was there before and returns: the faulting instruction
** runs again and dies as it would have, core dump and all.  A signal that was sent, as abort does,
** does not come again by itself and is raised once more.
**
** One fault need not be fatal: a mapped file that became shorter is SIGBUS where it is read, and
** whoever reads such files says so beforehand (rg_guarded).
*/
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include "base/base.h"

enum { N_FATAL = 5 };

static const int fatal[N_FATAL] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
static struct sigaction before[N_FATAL];
static volatile sig_atomic_t note_fd = -1;
static volatile int64_t note_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool installed;
static bool guards; /* somebody has read mapped files: the handlers stay */
static _Thread_local sigjmp_buf *volatile guard;

static void on_fatal(int number, siginfo_t *info, void *context)
{
  char text[] = "signal 00\n";
  const int saved = errno;

  (void)context;
  if (number == SIGBUS && guard != NULL) siglongjmp(*guard, 1);
  text[7] = (char)('0' + number / 10);
  text[8] = (char)('0' + number % 10);
  const ssize_t written = note_fd >= 0 ? pwrite(note_fd, text, sizeof text - 1, (off_t)note_at) : 0;
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

  RG_TRY(rg_signal_stack());
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
}

rg_status rg_crash_note(int32_t fd, int64_t at)
{
  if (at < 0) return rg_fail(RG_EARG, "crash note: offset %lld is negative", (long long)at);
  rg_status status = RG_OK;
  pthread_mutex_lock(&lock);
  if (fd >= 0 && !installed) {
    status = install();
    installed = status == RG_OK;
  }
  if (fd < 0 && installed && !guards) {
    uninstall();
    installed = false;
  }
  if (status == RG_OK) {
    note_at = at;
    note_fd = fd;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

/* -- Mapped files -------------------------------------------------------------------- */

static void begin_guards(void)
{
  pthread_mutex_lock(&lock);
  if (!installed) installed = install() == RG_OK;
  guards = installed;
  pthread_mutex_unlock(&lock);
}

bool rg_guarded(void (*f)(void *), void *argument)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  sigjmp_buf here;
  sigjmp_buf *outer = guard;

  pthread_once(&once, begin_guards);
  if (sigsetjmp(here, 1) != 0) {
    guard = outer;
    return false;
  }
  guard = &here;
  f(argument);
  guard = outer;
  return true;
}
