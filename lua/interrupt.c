/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C.  host.call runs a function so that Ctrl-C ends it as its kind asks:
**
**   'session'  what was typed at the prompt: the first press ends it, from any loop
**   'recipe'   a file: the first press makes host.stopping() true, so that it can save and leave;
**              the second is an error at once
**   'once'     -e, standard input, a subcommand: the first press is an error
**
** One more press within two seconds, when that did not end it, is the system's default action.
**
** LuaJIT's own hook cannot stop compiled code: a trace does not look at it.  In a session we
** therefore also start LuaJIT's profiler in line mode, which lets the compiler put a test of one
** byte at each new source line, and raise SIGPROF in the handler, which sets that byte: the trace
** is left and the hook runs.  The timer of the profiler is switched off at once; nothing is ever
** sampled.  Cost: up to 10 %, which is why files run without it.
**
** The hook stays armed until the call returns, so that a user's pcall cannot swallow the press.
** It spares ridge's own Lua for a second of processor time: what ridge does behind a pcall of its
** own (throw a capture away, roll a transaction back, remove a half-written file) is not cut off in
** the middle, also where the machine is busy; the error comes with the first instruction of the
** user's.  Five seconds by the clock end it in any case: a loop of waits takes no processor time.
*/
#include "host.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <luajit.h>

#include "ridge/base.h"
#include "ridge/graph.h"
#include "ridge/op.h"
#include "ridge/tensor.h"

enum { KIND_NONE, KIND_ONCE, KIND_RECIPE, KIND_SESSION };
enum { TWICE_MS = 2000, GRACE_MS = 1000, LONGEST_GRACE_MS = 5000 };

static lua_State *main_state;
static pthread_t main_thread;
static volatile sig_atomic_t kind;        /* what runs now */
static volatile sig_atomic_t stopping;    /* a recipe was asked to come to its end */
static volatile sig_atomic_t interrupted; /* the running call was told to stop at once */
static volatile sig_atomic_t at_prompt;   /* Ctrl-C while nothing ran */
static volatile sig_atomic_t presses;     /* in a row, each within two seconds */
static volatile int64_t last_press_ms;
static volatile int64_t last_press_worked_ms; /* what this thread had computed until then */

/* -- In the signal handler ------------------------------------------------------ */

static int64_t ms_of(clockid_t clock)
{
  struct timespec now;

  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t now_ms(void)
{
  return ms_of(CLOCK_MONOTONIC);
}

static int64_t worked_ms(void)
{
  return ms_of(CLOCK_THREAD_CPUTIME_ID);
}

/* Is what ridge does after a press still to be let alone? */
static int spares(void)
{
  return now_ms() - last_press_ms < LONGEST_GRACE_MS &&
         worked_ms() - last_press_worked_ms < GRACE_MS;
}

/* Is this chunk one of ridge's own, embedded or below RIDGE_LUA? */
static int is_own(const char *source)
{
  const char *folder;
  size_t n;

  if (source[0] != '@') return 0;
  if (strncmp(source + 1, "ridge/", 6) == 0) return 1;
  folder = getenv("RIDGE_LUA");
  n = folder ? strlen(folder) : 0;
  return n > 0 && strncmp(source + 1, folder, n) == 0 && strncmp(source + 1 + n, "/ridge/", 7) == 0;
}

/*
** Is the table of handles being changed, or a C function called for that?  Its parts have to agree:
** one that was left between two of them writes behind its lists of slots.  Its loops end, though
** with the hook set they take seconds over a hundred thousand slots, longer than any grace.
*/
static int changes_handles(lua_State *L, const lua_Debug *record)
{
  static const char name[] = "ridge/ffi/ref.lua";
  lua_Debug caller;
  size_t n;

  if (*record->what == 'C') {
    if (!lua_getstack(L, 1, &caller) || !lua_getinfo(L, "S", &caller)) return 0;
    record = &caller;
  }
  n = strlen(record->source);
  return n >= sizeof name && is_own(record->source) &&
         strcmp(record->source + n - (sizeof name - 1), name) == 0;
}

/* Runs at the next instruction; stays armed, see above. */
static void stop_hook(lua_State *L, lua_Debug *record)
{
  lua_getinfo(L, "S", record);
  if (((*record->what == 'C' || is_own(record->source)) && spares()) ||
      changes_handles(L, record)) {
    if (kind == KIND_SESSION) raise(SIGPROF); /* a trace entered from here is left again */
    return;
  }
  lua_pushliteral(L, "interrupted");
  lua_error(L);
}

static void default_action(int number)
{
  sigset_t only;

  signal(number, SIG_DFL);
  sigemptyset(&only);
  sigaddset(&only, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

static void note_stopping(void)
{
  static const char text[] =
      "\nstopping at the next good place; Ctrl-C once more to stop at once\n";
  const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);

  (void)written;
}

static volatile sig_atomic_t arrived; /* presses so far, also those at the prompt */

int rg_host_presses(void)
{
  return arrived;
}

static void on_interrupt(int number);

/* A press ends what waits: a blocking read, a lock.  A recipe goes on and may be writing: its first
** press lets the wait be. */
static void install(int restarts)
{
  struct sigaction action;

  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_ONSTACK | (restarts ? SA_RESTART : 0);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
}

static void on_press(int number)
{
  const int64_t now = now_ms();

  if (kind == KIND_NONE) {
    at_prompt = 1;
    return;
  }
  if (kind == KIND_RECIPE && !stopping) {
    stopping = 1;
    install(0); /* the next press */
    note_stopping();
    return;
  }
  presses = now - last_press_ms < TWICE_MS ? presses + 1 : 1;
  last_press_ms = now;
  last_press_worked_ms = worked_ms();
  if (presses > (kind == KIND_SESSION ? 2 : 1)) {
    default_action(number);
    return;
  }
  /* A second set while the first has not been seen: clear it, in case the first was lost in a race
  ** of LuaJIT's dispatch table. */
  if (interrupted) lua_sethook(main_state, NULL, 0, 0);
  interrupted = 1;
  rg_interrupt_set();
  lua_sethook(main_state, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
  if (kind == KIND_SESSION) raise(SIGPROF);
}

static void on_interrupt(int number)
{
  const int saved = errno;

  arrived++;
  if (pthread_equal(pthread_self(), main_thread)) {
    on_press(number);
  } else {
    pthread_kill(main_thread, number); /* some library's thread took it: hand it on */
  }
  errno = saved;
}

/* -- Around a call --------------------------------------------------------------- */

static void ignore_sample(void *data, lua_State *L, int samples, int vmstate)
{
  (void)data;
  (void)L;
  (void)samples;
  (void)vmstate;
}

/* Handlers leave the stack alone on which a computation runs (core/base/signals.c).  Without the
** memory for that they run as they always did. */
void rg_host_signal_stack(void)
{
  const rg_status status = rg_signal_stack();

  (void)status;
}

/* Is LuaJIT's profiler on?  Whoever used it for his own ends has switched it off behind him. */
static int is_profiling(void)
{
  struct sigaction now;

  return sigaction(SIGPROF, NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
         now.sa_handler != SIG_IGN;
}

/* The profiler puts SIGPROF back as it found it when it stops: ignored, so that neither a press of
** Ctrl-C nor a late sample is a death afterwards. */
void rg_host_profile(lua_State *L, luaJIT_profile_callback callback)
{
  const struct itimerval never = { { 0, 0 }, { 0, 0 } };

  if (!is_profiling()) signal(SIGPROF, SIG_IGN);
  luaJIT_profile_start(L, "li1000000", callback, NULL);
  setitimer(ITIMER_PROF, &never, NULL);
  rg_host_signal_stack();
}

/*
** The message handler: runs where the error happened, before the stack is left.  No pcall of the
** user's stands between here and host.call, so the signal was delivered and the hook can go.
*/
static int on_error(lua_State *L)
{
  lua_sethook(L, NULL, 0, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return 1;
  }
  lua_insert(L, -2);
  lua_call(L, 1, 1);
  return 1;
}

/*
** Put back what the call has left open: scopes, a capture, autocast.  Their functions do it
** themselves, unless they were cut off.
*/
static void restore(int32_t depth, int32_t autocast, int32_t capturing)
{
  if (rg_capturing() && !capturing) rg_capture_cancel();
  if (rg_scope_depth() > depth) rg_scope_leave(depth + 1);
  rg_autocast_set(autocast);
}

/*
** host.call(kind, f, handler, ...): call f(...).
**
** Returns true and f's results, or false, handler's result (the error itself if handler is nil),
** and whether Ctrl-C ended it; false also if it came to its end behind a Ctrl-C that ridge's own
** code had caught.
*/
static int host_call(lua_State *L)
{
  static const char *const names[] = { "once", "recipe", "session", NULL };
  const int new_kind = luaL_checkoption(L, 1, NULL, names) + KIND_ONCE;
  const int old_kind = kind;
  const int32_t depth = rg_scope_depth(), autocast = rg_autocast(), capturing = rg_capturing();
  int status, was_interrupted;

  luaL_checkany(L, 2);
  if (lua_gettop(L) < 3) lua_settop(L, 3);
  lua_pushvalue(L, 3);
  lua_pushcclosure(L, on_error, 1);
  lua_replace(L, 1); /* handler closure, f, handler, arguments */
  lua_remove(L, 3);
  if (new_kind == KIND_SESSION && !is_profiling()) rg_host_profile(L, ignore_sample);
  install(new_kind == KIND_RECIPE);
  if (old_kind == KIND_NONE) {
    stopping = 0;
    interrupted = 0;
    presses = 0;
  }
  kind = new_kind;
  status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1);
  kind = old_kind;
  was_interrupted = interrupted;
  if (old_kind == KIND_NONE) {
    lua_sethook(L, NULL, 0, 0);
    rg_interrupt_clear();
    interrupted = 0;
  } else {
    install(old_kind == KIND_RECIPE && !stopping);
  }
  if (status == 0 && was_interrupted) {
    lua_settop(L, 0);
    lua_pushliteral(L, "interrupted");
    status = LUA_ERRRUN;
  }
  if (status != 0) {
    restore(depth, autocast, capturing);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    lua_pushboolean(L, was_interrupted);
    return 3;
  }
  lua_pushboolean(L, 1);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* host.stopping(): a recipe should come to its end; still true after it has returned. */
static int host_stopping(lua_State *L)
{
  lua_pushboolean(L, stopping || interrupted);
  return 1;
}

/* host.interrupted(): the running call was told to stop at once; do not go on to the next thing. */
static int host_interrupted(lua_State *L)
{
  lua_pushboolean(L, interrupted);
  return 1;
}

/* host.stopped(): what was told to stop has, and what follows is not part of it: the profile of a
** recipe is told, for as long as that takes.  One more press ends that. */
static int host_stopped(lua_State *L)
{
  if (interrupted) {
    lua_sethook(L, NULL, 0, 0);
    rg_interrupt_clear();
    interrupted = 0;
    presses = 0;
  }
  return 0;
}

void rg_host_watch(lua_State *L)
{
  if (kind == KIND_SESSION && !is_profiling()) rg_host_profile(L, ignore_sample);
}

/* host.interrupt(): what a press of Ctrl-C does, for tests and for programs that embed. */
static int host_interrupt(lua_State *L)
{
  (void)L;
  raise(SIGINT);
  return 0;
}

void rg_host_interrupt(lua_State *L)
{
  static const luaL_Reg functions[] = {
    { "call", host_call },
    { "stopping", host_stopping },
    { "interrupted", host_interrupted },
    { "stopped", host_stopped },
    { "interrupt", host_interrupt },
    { NULL, NULL },
  };
  main_state = L;
  main_thread = pthread_self();
  rg_host_signal_stack();
  luaL_register(L, NULL, functions);
}

void rg_host_listen(void)
{
  install(0);
}

/* -- At the prompt --------------------------------------------------------------- */

static volatile sig_atomic_t noted; /* a signal that whoever waits handles */

int rg_host_note(int number)
{
  if (pthread_equal(pthread_self(), main_thread)) {
    noted = 1;
    return 1;
  }
  pthread_kill(main_thread, number); /* some library's thread took it: it would wake nobody */
  return 0;
}

int rg_host_wait(int fd)
{
  struct pollfd input = { .fd = fd, .events = POLLIN };
  sigset_t all, before;
  int n, why;

  /* one that came a moment before would be seen with the next key only */
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  n = at_prompt || noted ? -1 : ppoll(&input, 1, NULL, &before);
  why = n >= 0                                 ? RG_WAIT_INPUT
        : at_prompt || noted || errno == EINTR ? RG_WAIT_SIGNAL
                                               : RG_WAIT_FAILED;
  if (why == RG_WAIT_SIGNAL && !at_prompt) noted = 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (at_prompt) {
    at_prompt = 0;
    return RG_WAIT_INTERRUPT;
  }
  return why;
}
