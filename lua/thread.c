/* SPDX-License-Identifier: MIT */
/*
** host.thread: a thread with a Lua state of its own, for what must answer while the program's state
** is busy (ridge.kernel.io).  The two states share nothing but what they send each other.
*/
#include "host.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lualib.h>

typedef struct task {
  const char *module, *argument; /* both in text */
  char text[];
} task;

/* Call what the module returns, with the argument. */
static int run(lua_State *L)
{
  const task *t = lua_touserdata(L, 1);

  luaL_openlibs(L);
  rg_host_embed(L, 1, NULL);
  rg_host_terminal(L);
  lua_settop(L, 0);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ridge.pairs"); /* before anything loops over a table */
  lua_call(L, 1, 0);
  lua_getglobal(L, "require");
  lua_pushstring(L, t->module);
  lua_call(L, 1, 1);
  lua_pushstring(L, t->argument);
  lua_call(L, 1, 0);
  return 0;
}

/* Whoever waits for an answer of this thread would wait for ever: its error ends the process. */
static void *start(void *data)
{
  task *t = data;
  lua_State *L = luaL_newstate();
  const char *message = "not enough memory for a Lua state";

  if (L) {
    lua_pushcfunction(L, run);
    lua_pushlightuserdata(L, t);
    message = lua_pcall(L, 1, 0, 0) == 0 ? NULL : lua_tostring(L, -1);
    if (!message && lua_gettop(L) > 0) message = "an error without a message";
  }
  if (message) {
    fprintf(stderr, "ridge: %s: %s\n", t->module, message);
    _exit(1);
  }
  lua_close(L);
  free(t);
  return NULL;
}

/* host.thread(module, argument): no signal is handled in it. */
static int host_thread(lua_State *L)
{
  size_t m, a;
  const char *module = luaL_checklstring(L, 1, &m), *argument = luaL_checklstring(L, 2, &a);
  task *t = malloc(sizeof *t + m + a + 2);
  sigset_t all, before;
  pthread_t thread;
  int status;

  if (!t) return luaL_error(L, "thread: no memory");
  memcpy(t->text, module, m + 1);
  memcpy(t->text + m + 1, argument, a + 1);
  t->module = t->text;
  t->argument = t->text + m + 1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  status = pthread_create(&thread, NULL, start, t);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (status != 0) {
    free(t);
    return luaL_error(L, "thread: %s", strerror(status));
  }
  pthread_detach(thread);
  return 0;
}

void rg_host_thread(lua_State *L)
{
  lua_pushcfunction(L, host_thread);
  lua_setfield(L, -2, "thread");
}
