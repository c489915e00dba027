/* SPDX-License-Identifier: MIT */
/*
** Samples of where Lua is, by LuaJIT's profiler.
**
** The callback is C and only writes text down: LuaJIT ends the process when a callback written in
** Lua raises, and a Ctrl-C would make it raise (lua/interrupt.c).
*/
#include "host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <luajit.h>

enum { ROOM = 8 << 20, DEPTH = 12 };

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

/* The profiler puts SIGPROF back as it found it when it stops.  One that was on its way then would
** end a script, which has no other use of the signal: it is to find it ignored. */
static void ignore_late(void)
{
  struct sigaction now;

  if (sigaction(SIGPROF, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
    signal(SIGPROF, SIG_IGN);
  }
}

/* host.sample_start(mode): sample from now on; mode as for jit.profile.start, "li1". */
static int host_sample_start(lua_State *L)
{
  const char *mode = luaL_checkstring(L, 1);

  if (!text) text = malloc(ROOM);
  if (!text) return luaL_error(L, "no memory for samples");
  used = 0;
  lost = 0;
  /* LuaJIT would stop a running one itself, and forget the mode just set: loops compiled then could
  ** not be left */
  luaJIT_profile_stop(L);
  ignore_late();
  luaJIT_profile_start(L, mode, note, NULL);
  return 0;
}

/* host.sample_stop(): the samples as text, and how many were lost.  Ctrl-C is watched again. */
static int host_sample_stop(lua_State *L)
{
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
