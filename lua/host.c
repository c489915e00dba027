/* SPDX-License-Identifier: MIT */
/*
** The `ridge` program: one LuaJIT state with the core, the embedded sources and the terminal, and
** then Lua: lua/ridge/cli/main.lua reads the command line.
*/
#include "host.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include <lualib.h>

/*
** Characters as the user's locale says, numbers as C says them.  Where no locale is set (a bare
** container), UTF-8: everything ridge prints is UTF-8.
*/
static void set_locale(void)
{
  setlocale(LC_CTYPE, "");
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
  setlocale(LC_NUMERIC, "C");
}

/* Open the state and call ridge.cli.main's function with the arguments; one result, the status. */
static int run(lua_State *L)
{
  const char *const *argv = lua_touserdata(L, 1);

  luaL_openlibs(L);
  rg_host_embed(L, 1, NULL);
  rg_host_terminal(L);
  rg_host_interrupt(L);
  rg_host_editor(L);
  rg_host_settings(L);
  rg_host_sample(L);
  lua_settop(L, 0);

  lua_getglobal(L, "require");
  lua_pushliteral(L, "ridge.cli.main");
  lua_call(L, 1, 1);
  lua_newtable(L);
  for (int i = 0; argv[i]; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
  lua_call(L, 1, 1);
  return 1;
}

int main(int argc, char **argv)
{
  lua_State *L;
  int status = 1;

  (void)argc;
  set_locale();
  L = luaL_newstate();
  if (!L) {
    fputs("ridge: not enough memory to start\n", stderr);
    return 1;
  }
  lua_pushcfunction(L, run);
  lua_pushlightuserdata(L, argv);
  if (lua_pcall(L, 1, 1, 0) == 0) {
    status = (int)lua_tointeger(L, -1);
  } else {
    const char *message = lua_tostring(L, -1);
    fprintf(stderr, "ridge: %s\n", message ? message : "an error without a message");
  }
  lua_close(L);
  return status;
}
