/* SPDX-License-Identifier: MIT */
/*
** Child processes, and the channel to each: spawned and never forked, because a fork of a process
** with compute threads leaves a pool without threads (POSIX 2018, fork, rationale).
**
** The channel is one socket, descriptor 3 of the child.  It closes with either process, however it
** dies: whoever reads it then knows, and nobody polls for a life sign.
*/
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

struct rg_process {
  pid_t pid; /* 0 once it has been waited for */
  int32_t channel;
  int32_t ended; /* 1 when how is known */
  rg_process_end how;
};

extern char **environ;

/* -- Environment ------------------------------------------------------------- */

/* Is entry ("NAME=value") replaced by one of extra? */
static int is_replaced(const char *entry, const char *const *extra)
{
  for (int32_t i = 0; extra && extra[i]; i++) {
    const size_t n = strcspn(extra[i], "=");
    if (strncmp(entry, extra[i], n) == 0 && entry[n] == '=') return 1;
  }
  return 0;
}

/* Our environment with extra in it; only the list is new memory. */
static char **environment(const char *const *extra)
{
  size_t n = 0;
  size_t n_extra = 0;

  while (environ[n])
    n++;
  while (extra && extra[n_extra])
    n_extra++;
  char **list = malloc((n + n_extra + 1) * sizeof *list);
  if (!list) return NULL;
  size_t used = 0;
  for (size_t i = 0; i < n; i++) {
    if (!is_replaced(environ[i], extra)) list[used++] = environ[i];
  }
  /* posix_spawn takes char *const[] and writes into none of them */
  for (size_t i = 0; i < n_extra; i++)
    memcpy(&list[used++], &extra[i], sizeof extra[i]);
  list[used] = NULL;
  return list;
}

/* -- Spawning ---------------------------------------------------------------- */

static int add_descriptors(posix_spawn_file_actions_t *actions, int32_t out, int32_t err,
                           int channel)
{
  int st = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);

  /* each copy loses the close-on-exec of what it was made from */
  if (st == 0 && out >= 0) st = posix_spawn_file_actions_adddup2(actions, out, 1);
  if (st == 0 && out < 0) {
    st = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
  }
  if (st == 0 && err >= 0) st = posix_spawn_file_actions_adddup2(actions, err, 2);
  if (st == 0 && err < 0) {
    st = posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
  }
  if (st == 0) st = posix_spawn_file_actions_adddup2(actions, channel, RG_PROCESS_CHANNEL);
  return st;
}

static int set_attributes(posix_spawnattr_t *attributes, int32_t own_group)
{
  short flags = POSIX_SPAWN_SETSIGMASK;
  sigset_t none;
  int st;

  sigemptyset(&none);
  st = posix_spawnattr_setsigmask(attributes, &none);
  if (own_group) {
    flags |= POSIX_SPAWN_SETPGROUP;
    if (st == 0) st = posix_spawnattr_setpgroup(attributes, 0);
  }
  return st == 0 ? posix_spawnattr_setflags(attributes, flags) : st;
}

struct start {
  pid_t *pid;
  const char *path;
  const posix_spawn_file_actions_t *actions;
  const posix_spawnattr_t *attributes;
  char *const *words;
  char **env;
  int status;
};

static void start_now(void *argument)
{
  struct start *s = argument;

  s->status = posix_spawn(s->pid, s->path, s->actions, s->attributes, s->words, s->env);
}

static int start(struct start *s)
{
  rg_as_given(start_now, s);
  return s->status;
}

static int spawn(const char *const *argv, char **env, const rg_process_options *options,
                 int channel, pid_t *pid)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  char *const *words;
  int st = posix_spawn_file_actions_init(&actions);

  if (st != 0) return st;
  st = posix_spawnattr_init(&attributes);
  if (st == 0) {
    memcpy(&words, &argv, sizeof words);
    st = add_descriptors(&actions, options->out_fd, options->err_fd, channel);
    if (st == 0) st = set_attributes(&attributes, options->own_group);
    if (st == 0) st = start(&(struct start){ pid, argv[0], &actions, &attributes, words, env, 0 });
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return st;
}

/* Above what the child's own descriptors will be: a dup2 onto itself would keep close-on-exec. */
static int move_up(int fd)
{
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, RG_PROCESS_CHANNEL + 1);

  close(fd);
  return moved;
}

rg_status rg_process_new(const char *const *argv, const char *const *extra,
                         const rg_process_options *options, rg_process **out)
{
  int pair[2];

  if (!argv || !argv[0] || !options || !out) {
    return rg_fail(RG_EARG, "process: a program, options and a place for the process are needed");
  }
  *out = NULL;
  rg_process *process = calloc(1, sizeof *process);
  char **env = environment(extra);
  if (!process || !env) {
    free(process);
    free(env);
    return rg_fail(RG_ENOMEM, "process: no memory for its environment");
  }
  int st = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 ? 0 : errno;
  if (st == 0) {
    pair[1] = move_up(pair[1]);
    st = pair[1] >= 0 ? spawn(argv, env, options, pair[1], &process->pid) : errno;
    if (pair[1] >= 0) close(pair[1]);
    if (st != 0) close(pair[0]);
  }
  free(env);
  if (st != 0) {
    free(process);
    return rg_fail(RG_ESYS, "process: cannot start %s: %s", argv[0], strerror(st));
  }
  process->channel = pair[0];
  *out = process;
  return RG_OK;
}

int32_t rg_process_channel(const rg_process *process)
{
  return process->channel;
}

int64_t rg_process_id(const rg_process *process)
{
  return process->pid;
}

/* -- Its end ----------------------------------------------------------------- */

static void note_end(rg_process *process, int status)
{
  process->ended = 1;
  process->pid = 0;
  process->how.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  process->how.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

rg_status rg_process_wait(rg_process *process, int64_t longest_ns, rg_process_end *out)
{
  const int64_t until = rg_clock_ns() + longest_ns;
  int status;

  while (!process->ended) {
    const pid_t pid = waitpid(process->pid, &status, WNOHANG);
    if (pid == process->pid) {
      note_end(process, status);
      break;
    }
    if (pid < 0 && errno != EINTR) {
      return rg_fail(RG_ESYS, "process: it cannot be waited for: %s", strerror(errno));
    }
    if (rg_interrupt_pending()) return rg_fail(RG_EINTR, "process: interrupted");
    if (rg_clock_ns() >= until) break;
    poll(NULL, 0, 2);
  }
  out->running = !process->ended;
  out->code = process->ended ? process->how.code : -1;
  out->signal = process->how.signal;
  return RG_OK;
}

rg_status rg_process_kill(rg_process *process, int32_t number)
{
  if (process->ended || kill(process->pid, number) == 0) return RG_OK;
  return rg_fail(RG_ESYS, "process: it takes no signal %d: %s", number, strerror(errno));
}

void rg_process_release(rg_process *process)
{
  int status;

  if (!process) return;
  if (!process->ended) {
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
      continue;
  }
  close(process->channel);
  free(process);
}

/* -- Channel ------------------------------------------------------------------ */

rg_status rg_channel_send(int32_t fd, const void *bytes, int64_t n)
{
  const char *at = bytes;

  while (n > 0) {
    const ssize_t sent = send(fd, at, (size_t)n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return rg_fail(RG_EIO, "channel: the other process is gone: %s", strerror(errno));
    at += sent;
    n -= sent;
  }
  return RG_OK;
}

rg_status rg_channel_receive(int32_t fd, void *bytes, int64_t n, int64_t longest_ns, int64_t *got)
{
  const int64_t until = rg_clock_ns() + longest_ns;

  for (;;) {
    struct pollfd wanted = { .fd = fd, .events = POLLIN };
    const int64_t left = (until - rg_clock_ns()) / 1000000;
    const int ready = poll(&wanted, 1, left > 50 ? 50 : left < 0 ? 0 : (int)left + 1);
    if (ready > 0) {
      const ssize_t read = recv(fd, bytes, (size_t)n, 0);
      if (read < 0 && errno == EINTR) continue;
      /* a child that died with unread orders resets its end: that is an end too */
      if (read < 0 && errno != ECONNRESET) {
        return rg_fail(RG_EIO, "channel: cannot be read: %s", strerror(errno));
      }
      *got = read > 0 ? read : 0;
      return RG_OK;
    }
    if (rg_interrupt_pending()) return rg_fail(RG_EINTR, "channel: interrupted");
    if (rg_clock_ns() >= until) break;
  }
  *got = -1;
  return RG_OK;
}
