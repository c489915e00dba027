/* SPDX-License-Identifier: MIT */
/*
** The `ridge` program: one LuaJIT state with the core, the embedded sources and the terminal, and
** then Lua: lua/ridge/cli/main.lua reads the command line.
*/
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* -- Standard output --------------------------------------------------------- */

static int was_closed; /* standard output, when the program began */

/*
** Fill the places of standard streams that are closed: the next file that is opened, a database,
** would take their numbers and get what is printed.  Writing to this standard output fails.
*/
static void fill_streams(void)
{
  static const char *const files[] = { "/dev/null", "/dev/full", "/dev/null" };

  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    if (fd == STDOUT_FILENO) was_closed = 1;
    /* the lowest number that is free: this one */
    if (open(files[fd], fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

/* Why a stream could not take all that was written to it; NULL: it could. */
static const char *lost(FILE *stream)
{
  const int before = ferror(stream);

  errno = 0;
  if (fflush(stream) == 0 && !before) return NULL;
  /* an earlier write failed and its reason is gone: a write of nothing may say it again */
  if (errno == 0 && write(fileno(stream), "", 0) == 0) return "not all of it could be written";
  return was_closed ? "it is closed" : strerror(errno);
}

/*
** In a session a press of Ctrl-C ends a write that waits, and the terminal throws away what it has
** not shown yet: that is what the user asked for, no output that was lost.
*/
void rg_host_cut_off(void)
{
  static int presses, failed[2];
  FILE *const streams[] = { stdout, rg_host_editor_stream() };
  const int pressed = rg_host_presses() != presses;

  presses = rg_host_presses();
  for (int i = 0; i < 2; i++) {
    if (!streams[i]) continue;
    if (pressed && !failed[i]) clearerr(streams[i]);
    failed[i] = ferror(streams[i]) != 0;
  }
}

const char *rg_host_lost(void)
{
  const char *reason;

  rg_host_cut_off();
  reason = lost(stdout);

  if (!reason && rg_host_editor_stream()) reason = lost(rg_host_editor_stream());
  return reason;
}

/* host.ended(status): see rg_host_ended. */
static int host_ended(lua_State *L)
{
  lua_pushinteger(L, rg_host_ended((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* host.lost(): why not all that was printed reached standard output, or nil. */
static int host_lost(lua_State *L)
{
  const char *reason = rg_host_lost();

  if (!reason) return 0;
  lua_pushstring(L, reason);
  return 1;
}

/* host.closed(): whether standard output was closed when the program began. */
static int host_closed(lua_State *L)
{
  lua_pushboolean(L, was_closed);
  return 1;
}

int rg_host_ended(int status)
{
  static int said;
  const char *reason = rg_host_lost();

  if (!reason) return status;
  if (!said) fprintf(stderr, "ridge: standard output: %s\n", reason);
  said = 1;
  return status == 0 ? 1 : status;
}

/* -- The program -------------------------------------------------------------- */

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
  rg_host_thread(L);
  lua_pushcfunction(L, host_ended);
  lua_setfield(L, -2, "ended");
  lua_pushcfunction(L, host_lost);
  lua_setfield(L, -2, "lost");
  lua_pushcfunction(L, host_closed);
  lua_setfield(L, -2, "closed");
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
  fill_streams();
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
  signal(SIGINT, SIG_DFL); /* nobody looks at a press any more, whatever is still waited for */
  lua_close(L);
  return rg_host_ended(status);
}
