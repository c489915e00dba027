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
*/
#include "host.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <luajit.h>

#ifndef sigev_notify_thread_id /* glibc before 2.42 */
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { ROOM = 8 << 20, DEPTH = 12, EVERY_NS = 1000000 };

static timer_t timer;
static bool ticks;
static char *text; /* a line for each sample: how many, the state of the machine, the stack */
static size_t used;
static int lost; /* samples for which there was no room */

static void note(void *data, lua_State *L, int samples, int vmstate)
{
  size_t n;
  const char *stack = luaJIT_profile_dumpstack(L, "pl;", DEPTH, &n);
  char head[32];
  const int m = snprintf(head, sizeof head, "%d %c ", samples, vmstate);

  (void)data;
  if (used + (size_t)m + n + 1 > ROOM) {
    lost += samples;
    return;
  }
  memcpy(text + used, head, (size_t)m);
  memcpy(text + used + m, stack, n);
  used += (size_t)m + n;
  text[used++] = '\n';
}

/* Ticks for this thread, each millisecond of the processor time of all threads. */
static bool start_ticks(void)
{
  const struct itimerspec every = { { 0, EVERY_NS }, { 0, EVERY_NS } };
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

/* host.sample_start(): sample from now on, by line, each millisecond of processor time. */
static int host_sample_start(lua_State *L)
{
  stop_ticks();
  if (!text) text = malloc(ROOM);
  if (!text) return luaL_error(L, "no memory for samples");
  used = 0;
  lost = 0;
  /* LuaJIT would stop a running one itself, and forget the mode just set: loops compiled then could
  ** not be left */
  luaJIT_profile_stop(L);
  rg_host_profile(L, note);
  if (!start_ticks()) {
    luaJIT_profile_stop(L);
    rg_host_watch(L);
    return luaL_error(L, "no timer for samples");
  }
  return 0;
}

/* host.sample_stop(): the samples as text, and how many were lost.  Ctrl-C is watched again. */
static int host_sample_stop(lua_State *L)
{
  stop_ticks();
  luaJIT_profile_stop(L);
  rg_host_watch(L);
  lua_pushlstring(L, text ? text : "", used);
  lua_pushinteger(L, lost);
  free(text);
  text = NULL;
  used = 0;
  return 2;
}

void rg_host_sample(lua_State *L)
{
  static const luaL_Reg functions[] = {
    { "sample_start", host_sample_start },
    { "sample_stop", host_sample_stop },
    { NULL, NULL },
  };
  luaL_register(L, NULL, functions);
}
