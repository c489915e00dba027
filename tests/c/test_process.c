/* SPDX-License-Identifier: MIT */
/*
** Child processes: how they end, what they are given, and that nothing is left of them.
*/
#include "tap.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "ridge/base.h"

static const int64_t second = 1000000000;

static rg_process *shell(const char *script, const char *const *extra)
{
  const char *const argv[] = { "/bin/sh", "-c", script, NULL };
  const rg_process_options options = { .out_fd = -1, .err_fd = -1 };
  rg_process *process = NULL;

  if (rg_process_new(argv, extra, &options, &process) != RG_OK) return NULL;
  return process;
}

/* All that a child sends until it closes. */
static int64_t receive_all(rg_process *process, char *text, int64_t size)
{
  int64_t n = 0;
  int64_t got = 0;

  do {
    n += got;
    if (rg_channel_receive(rg_process_channel(process), text + n, size - n - 1, 20 * second,
                           &got) != RG_OK) {
      return -1;
    }
  } while (got > 0);
  text[n] = '\0';
  return got < 0 ? -1 : n;
}

static int32_t open_descriptors(void)
{
  DIR *folder = opendir("/proc/self/fd");
  int32_t n = 0;

  if (!folder) return -1;
  while (readdir(folder))
    n++;
  closedir(folder);
  return n;
}

static void test_end(void)
{
  rg_process_end how;
  rg_process *process = shell("exit 7", NULL);

  if (!process) tap_bail("no process");
  is_status(rg_process_wait(process, 20 * second, &how), RG_OK, "it can be waited for");
  is_int(how.code, 7, "its exit status");
  is_int(how.running, 0, "and runs no more");
  is_int(rg_process_id(process), 0, "so it has no number");
  is_status(rg_process_kill(process, SIGKILL), RG_OK, "and takes any signal");
  rg_process_release(process);

  process = shell("exec sleep 100", NULL);
  is_status(rg_process_wait(process, 0, &how), RG_OK, "looking does not wait");
  is_int(how.running, 1, "it runs");
  is_status(rg_process_kill(process, SIGTERM), RG_OK, "a signal is sent");
  is_status(rg_process_wait(process, 20 * second, &how), RG_OK, "it ends");
  is_int(how.signal, SIGTERM, "of that signal");
  is_int(how.code, -1, "without a status");
  rg_process_release(process);

  process = shell("exec sleep 100", NULL);
  const int64_t pid = rg_process_id(process);
  rg_process_release(process);
  ok(kill((pid_t)pid, 0) != 0, "what is released runs no more");
  rg_process_release(NULL);
}

static void test_channel(void)
{
  char text[256];
  int64_t got;
  const char *const extra[] = { "RIDGE_TEST_WORD=two words", "PATH=/bin:/usr/bin", NULL };

  (void)setenv("RIDGE_TEST_WORD", "another", 1);
  (void)setenv("RIDGE_TEST_WORDS", "more", 1);
  (void)setenv("RIDGE_TEST", "less", 1);
  rg_process *process = shell("read line <&3; echo \"$line, $RIDGE_TEST_WORD, "
                              "$RIDGE_TEST_WORDS, $RIDGE_TEST\" >&3; "
                              "test -z \"$(cat)\" && env | grep -c ^PATH= >&3",
                              extra);

  if (!process) tap_bail("no process");
  const int32_t fd = rg_process_channel(process);
  is_status(rg_channel_receive(fd, text, 256, 1000000, &got), RG_OK, "nothing comes");
  is_int(got, -1, "in a millisecond");
  is_status(rg_channel_send(fd, "hello\n", 6), RG_OK, "a line goes there");
  ok(receive_all(process, text, 256) > 0, "lines come back");
  ok(strcmp(text, "hello, two words, more, less\n1\n") == 0,
     "with the variable; standard input is empty; a variable replaces the one of its name alone");
  is_status(rg_channel_send(fd, "hello\n", 6), RG_EIO, "nobody listens any more");
  rg_process_release(process);

  process = shell("sleep 0.05; kill -9 $$", NULL);
  is_int(receive_all(process, text, 256), 0, "the channel closes when it is killed");
  rg_process_release(process);

  process = shell("exec sleep 100", NULL);
  rg_interrupt_set();
  is_status(rg_channel_receive(rg_process_channel(process), text, 256, 100 * second, &got),
            RG_EINTR, "an interrupt ends the waiting for words");
  rg_process_end how;
  is_status(rg_process_wait(process, 100 * second, &how), RG_EINTR, "and for the end");
  rg_interrupt_clear();
  rg_process_release(process);
}

/* What a file of that descriptor holds. */
static void holds(FILE *file, const char *want, const char *what)
{
  char text[64];

  rewind(file);
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  ok(strcmp(text, want) == 0, what);
}

/* Output and errors go where they are sent, each alone, too; to nowhere where nothing is said. */
static void test_output(void)
{
  const char *const argv[] = { "/bin/sh", "-c", "echo out; echo err >&2", NULL };

  for (int which = 0; which < 4; which++) {
    FILE *out = tmpfile();
    FILE *err = tmpfile();
    rg_process *process = NULL;
    rg_process_end how;

    if (out == NULL || err == NULL) tap_bail("no temporary file");
    const rg_process_options options = { .out_fd = (which & 1) != 0 ? fileno(out) : -1,
                                         .err_fd = (which & 2) != 0 ? fileno(err) : -1 };
    is_status(rg_process_new(argv, NULL, &options, &process), RG_OK, "a process that writes");
    is_status(rg_process_wait(process, 20 * second, &how), RG_OK, "ends");
    is_int(how.code, 0, "well");
    rg_process_release(process);
    holds(out, (which & 1) != 0 ? "out\n" : "", "its output");
    holds(err, (which & 2) != 0 ? "err\n" : "", "its errors");
    fclose(out);
    fclose(err);
  }
}

/* A group of its own where it is asked for; no signal held back, whatever holds them back here; and
** no descriptor but the three and the channel. */
static void test_attributes(void)
{
  for (int own = 0; own < 2; own++) {
    const char *const argv[] = { "/bin/sh", "-c",
                                 "read line <&3; cd /proc/self/fd; "
                                 "echo $(ls -d 0 1 2 3 4 5 6 7 8 9 2>/dev/null) "
                                 "$(grep SigBlk /proc/self/status) >&3",
                                 NULL };
    const rg_process_options options = { .out_fd = -1, .err_fd = -1, .own_group = own };
    rg_process *process = NULL;
    char text[256];
    sigset_t held;
    sigset_t before;

    sigemptyset(&held);
    sigaddset(&held, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    is_status(rg_process_new(argv, NULL, &options, &process), RG_OK, "while a signal is held back");
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (!process) tap_bail("no process");
    is_int(getpgid((pid_t)rg_process_id(process)), own ? rg_process_id(process) : getpgrp(),
           own ? "it leads a group of its own" : "it is of this group");
    is_status(rg_channel_send(rg_process_channel(process), "go\n", 3), RG_OK, "it is asked");
    ok(receive_all(process, text, 256) > 0, "and answers");
    ok(strncmp(text, "0 1 2 3 ", 8) == 0, "it has three descriptors and the channel");
    ok(strstr(text, "SigBlk: 0000000000000000") != NULL, "and holds no signal back");
    rg_process_release(process);
  }
}

/* Waiting ends in time, not before it and not long after. */
static void test_patience(void)
{
  rg_process *process = shell("exec sleep 100", NULL);
  rg_process_end how = { .running = -1 };
  int64_t begin = rg_clock_ns();
  int64_t got = 0;
  char byte;

  if (!process) tap_bail("no process");
  is_status(rg_process_wait(process, second / 10, &how), RG_OK, "a tenth of a second");
  ok(rg_clock_ns() - begin >= second / 10 && rg_clock_ns() - begin < 20 * second, "is waited for");
  is_int(how.running, 1, "it runs on");
  is_int(how.code, -1, "without a status");
  is_int(how.signal, 0, "or a signal");
  begin = rg_clock_ns();
  is_status(rg_channel_receive(rg_process_channel(process), &byte, 1, second / 10, &got), RG_OK,
            "a tenth of a second for a word");
  ok(rg_clock_ns() - begin >= second / 10 && rg_clock_ns() - begin < 20 * second, "is waited for");
  is_int(got, -1, "none comes");
  rg_process_release(process);
}

static void test_wrong(void)
{
  const char *const nowhere[] = { "/nowhere/at/all", NULL };
  const char *const none[] = { NULL };
  const rg_process_options options = { .out_fd = -1, .err_fd = -1 };
  rg_process *process = NULL;

  is_status(rg_process_new(nowhere, NULL, &options, &process), RG_ESYS, "no such program");
  ok(strstr(rg_error_message(), "/nowhere/at/all") != NULL, "which is named");
  ok(!process, "and there is no process");
  is_status(rg_process_new(none, NULL, &options, &process), RG_EARG, "no program at all");
}

int main(void)
{
  const int32_t before = open_descriptors();

  test_end();
  test_channel();
  test_output();
  test_attributes();
  test_patience();
  test_wrong();
  is_int(open_descriptors(), before, "no descriptor is left");
  return done();
}
