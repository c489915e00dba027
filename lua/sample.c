/* SPDX-License-Identifier: MIT */
/*
** Samples of where Lua is, by LuaJIT's profiler.
**
** The callback is C and only writes text down: LuaJIT ends the process when a callback written in
** Lua raises, and a Ctrl-C would make it raise (lua/interrupt.c).
**
** The timer is ours.  That of LuaJIT (setitimer) sends SIGPROF to the process, and any compute
** thread may take it: its handler then runs beside luaJIT_profile_stop, finds no state, or sets the
** hook after the stop has cleared it.  A timer of one thread (SIGEV_THREAD_ID) has no such race:
** what is under way when it is deleted arrives before timer_delete returns.
**
** A tick that comes while C runs is told to the callback when C has returned, several as one.  The
** handler therefore notes the moment of each: who reads the samples knows what was under way then.
**
** LuaJIT may believe that its hook is set where it is not: a tick that comes while its table of
** instructions is written is one way.  Then none sets it again, and the callback is told of nothing
** until something is compiled or the profile ends: how many those were is told at the end.
*/
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <luajit.h>

#include "ridge/base.h"

#ifndef sigev_notify_thread_id /* glibc before 2.42 */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* A hundred ticks a second, as other profilers take: 250 took 7 us of a training step of 350 us
** (results/kept/profile_cost.txt), because a tick ends the compiled code that runs. */
enum { DEPTH = 24, EVERY_NS = 10000000 };
enum { MOST_STACKS = 1 << 13, PLACES = 2 * MOST_STACKS, ROOM = 8 << 20 };
/* ticks that are kept, the last ones as of events: twenty minutes and more */
enum { MOST_TICKS = 1 << 17 };
enum { WAITING = 1 << 12 };

/* One tick, as Lua reads it (lua/ridge/profile/samples.lua). */
typedef struct tick {
  int64_t ns; /* rg_clock_ns */
  int32_t stack;
  int32_t unused;
} tick;

/* What was seen, each different stack once. */
typedef struct record {
  char text[ROOM]; /* a line for each stack: the state of the machine, its frames */
  size_t used;
  size_t at[MOST_STACKS + 1];
  int32_t place[PLACES]; /* number of a stack and one, by its hash */
  int32_t n_stacks;
  tick ticks[MOST_TICKS]; /* a ring: number n lies at n % MOST_TICKS */
  int64_t n_ticks;        /* all of them, those that were written over too */
  int lost;               /* ticks for which there was no room */
} record;

static timer_t timer;
static bool ticks;
static record *seen;

/* Ticks that the callback was not told of yet; both only grow. */
static volatile int64_t waiting[WAITING];
static volatile uint32_t arrived;
static uint32_t told;
static void (*handler)(int);

/* In the signal handler. */
static void on_tick(int number)
{
  const int before = errno;

  waiting[arrived % WAITING] = rg_clock_ns();
  arrived = arrived + 1;
  handler(number);
  errno = before;
}

static uint32_t hash_of(const char *text, size_t n)
{
  uint32_t hash = 2166136261u; /* FNV-1a */

  for (size_t i = 0; i < n; i++)
    hash = (hash ^ (uint8_t)text[i]) * 16777619u;
  return hash;
}

/* The number of a stack; -1: there is no room for it. */
static int32_t stack_of(const char *text, size_t n)
{
  uint32_t at = hash_of(text, n) % PLACES;

  for (; seen->place[at] != 0; at = (at + 1) % PLACES) {
    const int32_t i = seen->place[at] - 1;
    if (seen->at[i + 1] - seen->at[i] == n && memcmp(seen->text + seen->at[i], text, n) == 0) {
      return i;
    }
  }
  if (seen->n_stacks == MOST_STACKS || seen->used + n > ROOM) return -1;
  memcpy(seen->text + seen->used, text, n);
  seen->used += n;
  seen->place[at] = ++seen->n_stacks;
  seen->at[seen->n_stacks] = seen->used;
  return seen->n_stacks - 1;
}

static void note(void *data, lua_State *L, int samples, int vmstate)
{
  char text[8192];
  size_t n;
  const char *frames = luaJIT_profile_dumpstack(L, "pl\tf;", DEPTH, &n);
  const uint32_t until = arrived;
  int32_t stack;

  (void)data;
  (void)samples;
  if (n > sizeof text - 3) n = sizeof text - 3;
  text[0] = (char)vmstate;
  text[1] = ' ';
  memcpy(text + 2, frames, n);
  text[n + 2] = '\n';
  stack = stack_of(text, n + 3);
  if (until - told > WAITING) {
    seen->lost += (int)(until - told - WAITING);
    told = until - WAITING;
  }
  for (; told != until; told++) {
    if (stack < 0) {
      seen->lost++;
    } else {
      if (seen->n_ticks >= MOST_TICKS) seen->lost++; /* the oldest */
      seen->ticks[seen->n_ticks++ % MOST_TICKS] =
          (tick){ .ns = waiting[told % WAITING], .stack = stack };
    }
  }
}

/* LuaJIT's handler is called from ours. */
static bool take_signal(void)
{
  struct sigaction action;

  if (sigaction(SIGPROF, NULL, &action) != 0) return false;
  handler = action.sa_handler;
  action.sa_handler = on_tick;
  arrived = told = 0;
  return sigaction(SIGPROF, &action, NULL) == 0;
}

/* Ticks for this thread, by the processor time of all threads. */
static bool start_ticks(struct timespec interval)
{
  const struct itimerspec every = { interval, interval };
  struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF };

  event.sigev_notify_thread_id = gettid();
  if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0) return false;
  ticks = timer_settime(timer, 0, &every, NULL) == 0;
  if (!ticks) timer_delete(timer);
  return ticks;
}

static void stop_ticks(void)
{
  if (ticks) timer_delete(timer);
  ticks = false;
}

/* host.sample_start(): sample from now on, by line, by processor time (EVERY_NS).  Gives
** true, or nil and why that cannot be. */
static int host_sample_start(lua_State *L)
{
  stop_ticks();
  free(seen);
  seen = calloc(1, sizeof *seen); /* what is not used is not taken from the system */
  if (!seen) {
    lua_pushnil(L);
    lua_pushliteral(L, "no memory for samples");
    return 2;
  }
  /* LuaJIT would stop a running one itself, and forget the mode just set: loops compiled then could
  ** not be left */
  luaJIT_profile_stop(L);
  rg_host_profile(L, note);
  if (!take_signal() || !start_ticks((struct timespec){ 0, EVERY_NS })) {
    const int reason = errno;
    luaJIT_profile_stop(L);
    rg_host_watch(L);
    free(seen);
    seen = NULL;
    lua_pushnil(L);
    lua_pushfstring(L, "the system gives no timer: %s", strerror(reason));
    return 2;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* The ticks as bytes, the oldest first. */
static void push_ticks(lua_State *L)
{
  const size_t n = (size_t)seen->n_ticks, first = n > MOST_TICKS ? n % MOST_TICKS : 0;

  lua_pushlstring(L, (const char *)(seen->ticks + first),
                  ((n > MOST_TICKS ? MOST_TICKS : n) - first) * sizeof(tick));
  lua_pushlstring(L, (const char *)seen->ticks, first * sizeof(tick));
  lua_concat(L, 2);
}

/* host.sample_stop(): the stacks as text, the ticks as bytes, for how many there was no room, how
** many LuaJIT never told of, and whether somebody else has used LuaJIT's profiler, of which there
** is one.  Ctrl-C is watched again. */
static int host_sample_stop(lua_State *L)
{
  struct sigaction now;
  const bool taken = seen && sigaction(SIGPROF, NULL, &now) == 0 && now.sa_handler != on_tick;
  uint32_t untold;

  stop_ticks();
  untold = seen ? arrived - told : 0;
  luaJIT_profile_stop(L);
  rg_host_watch(L);
  lua_pushlstring(L, seen ? seen->text : "", seen ? seen->used : 0);
  if (seen)
    push_ticks(L);
  else
    lua_pushliteral(L, "");
  lua_pushinteger(L, seen ? seen->lost : 0);
  /* two may have come since the last instruction of Lua, while this was called */
  lua_pushinteger(L, untold > 2 ? (lua_Integer)untold : 0);
  lua_pushboolean(L, taken);
  free(seen);
  seen = NULL;
  return 5;
}

/* -- LuaJIT's own profiler, in the user's hands (jit.profile, jit.p) ------------------------- */

/* profile.start(mode, callback), with a timer of ours instead of the process's. */
static int profile_start(lua_State *L)
{
  const struct itimerval never = { { 0, 0 }, { 0, 0 } };
  struct itimerval every;

  stop_ticks();
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  rg_host_signal_stack();
  if (getitimer(ITIMER_PROF, &every) == 0 && timerisset(&every.it_interval)) {
    const struct timespec interval = { every.it_interval.tv_sec, every.it_interval.tv_usec * 1000 };
    if (start_ticks(interval)) setitimer(ITIMER_PROF, &never, NULL);
  }
  return 0;
}

/* profile.stop() */
static int profile_stop(lua_State *L)
{
  stop_ticks();
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 0, 0);
  return 0;
}

static void replace(lua_State *L, const char *name, lua_CFunction function)
{
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, function, 1);
  lua_setfield(L, -2, name);
}

/* The loader of jit.profile; its own is the upvalue. */
static int load_profile(lua_State *L)
{
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  replace(L, "start", profile_start);
  replace(L, "stop", profile_stop);
  return 1;
}

static void wrap_profile(lua_State *L)
{
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_getfield(L, -1, "jit.profile");
  if (lua_isfunction(L, -1)) { /* not in a LuaJIT that was built without it */
    lua_pushcclosure(L, load_profile, 1);
    lua_setfield(L, -2, "jit.profile");
  } else {
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

void rg_host_sample(lua_State *L)
{
  static const luaL_Reg functions[] = {
    { "sample_start", host_sample_start },
    { "sample_stop", host_sample_stop },
    { NULL, NULL },
  };
  luaL_register(L, NULL, functions);
  wrap_profile(L);
}
