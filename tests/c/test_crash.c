/* SPDX-License-Identifier: MIT */
/*
** The last word of a dying process: which signals leave it, and that they still kill.
*/
#include "tap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

enum { AT = 64 };

static int fd;

/* On purpose, so a sanitizer need not say so. */
__attribute__((no_sanitize("undefined"))) static void die_of_null(void)
{
  volatile int *volatile nowhere = NULL;

  *nowhere = 1;
}

static void die_of_abort(void)
{
  abort();
}

static void die_of_kill(void)
{
  raise(SIGKILL);
}

static volatile int forever = 1;

static int deeper(volatile char *above)
{
  volatile char here[4096];

  here[0] = above ? above[0] : 0;
  return forever ? deeper(here) + here[0] : 0;
}

static void die_of_recursion(void)
{
  exit(deeper(NULL));
}

static void die_after_the_end(void)
{
  if (rg_crash_note(-1, 0) != RG_OK) exit(3);
  die_of_null();
}

/* Notes that ended and began again. */
static void die_after_another_begin(void)
{
  if (rg_crash_note(-1, 0) != RG_OK || rg_crash_note(fd, AT) != RG_OK) exit(3);
  die_of_null();
}

static void exit_55(int number)
{
  (void)number;
  _exit(55);
}

/* Whoever handled signals before gets those that it handled, and no others. */
static void handled_by(const int *numbers, int n)
{
  if (rg_crash_note(-1, 0) != RG_OK) exit(3);
  for (int i = 0; i < n; i++) {
    signal(numbers[i], exit_55);
  }
  if (rg_crash_note(fd, AT) != RG_OK) exit(3);
  die_of_null();
}

static void die_of_another_than_handled(void)
{
  const int others[] = { SIGBUS, SIGFPE, SIGILL, SIGABRT };

  handled_by(others, 4);
}

static void die_of_what_is_handled(void)
{
  handled_by((const int[]){ SIGSEGV }, 1);
}

/* A mapped file that became shorter, read by who expects it, is no death; then a real one. */
static void touch(void *page)
{
  *(volatile char *)page = *(volatile char *)page;
}

static void die_after_a_guard(void)
{
  char path[] = "/tmp/ridge_crash_XXXXXX";
  int file = mkstemp(path);

  unlink(path);
  if (ftruncate(file, 4096) != 0) exit(5);
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED || !rg_guarded(touch, page)) exit(6);
  if (ftruncate(file, 0) != 0 || rg_guarded(touch, page) || rg_guarded(touch, page)) exit(7);
  touch(page);
}

/* What a child that does this leaves behind; returns the signal it died of. */
static int child(void (*die)(void), char *note, size_t size)
{
  int how = 0;

  if (ftruncate(fd, 0) != 0) return -1;
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    const struct rlimit no_core = { 0, 0 };
    setrlimit(RLIMIT_CORE, &no_core);
    if (rg_crash_note(fd, AT) != RG_OK) exit(2);
    die();
    exit(4);
  }
  waitpid(pid, &how, 0);
  const ssize_t n = pread(fd, note, size - 1, AT);
  note[n > 0 ? n : 0] = '\0';
  ok(n <= 0 || n == 10, "of a note's length");
  return WIFSIGNALED(how) ? WTERMSIG(how) : -1;
}

int main(void)
{
  char path[] = "/tmp/ridge_crash_XXXXXX";
  char note[64];

  fd = mkstemp(path);
  unlink(path);
  is_int(child(die_of_null, note, sizeof note), SIGSEGV, "a bad pointer still kills");
  ok(strcmp(note, "signal 11\n") == 0, "and leaves a note");
  is_int(child(die_of_abort, note, sizeof note), SIGABRT, "abort still kills");
  ok(strcmp(note, "signal 06\n") == 0, "and leaves a note");
  is_int(child(die_of_recursion, note, sizeof note), SIGSEGV, "a stack overflow still kills");
  ok(strcmp(note, "signal 11\n") == 0, "and leaves a note, from a stack of its own");
  is_int(child(die_of_kill, note, sizeof note), SIGKILL, "SIGKILL kills");
  ok(note[0] == '\0', "and leaves nothing");
  is_int(child(die_after_the_end, note, sizeof note), SIGSEGV, "after the end a bad pointer kills");
  ok(note[0] == '\0', "without a note");
  is_int(child(die_after_another_begin, note, sizeof note), SIGSEGV, "after another begin");
  ok(strcmp(note, "signal 11\n") == 0, "with a note");
  is_int(child(die_of_another_than_handled, note, sizeof note), SIGSEGV,
         "beside handlers of other signals");
  ok(strcmp(note, "signal 11\n") == 0, "with a note");
  is_int(child(die_of_what_is_handled, note, sizeof note), -1, "a handler of this one is asked");
  ok(strcmp(note, "signal 11\n") == 0, "behind the note");
  is_int(child(die_after_a_guard, note, sizeof note), SIGBUS, "a guarded fault does not kill");
  ok(strcmp(note, "signal 07\n") == 0, "an unguarded one does, and leaves a note");
  is_status(rg_crash_note(fd, -1), RG_EARG, "a negative offset is refused");
  return done();
}
