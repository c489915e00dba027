/* SPDX-License-Identifier: MIT */
/*
** What the terminal is: whether there is one, how wide, which files a name may be completed with.
*/
#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* host.is_terminal(fd): whether 0, 1 or 2 is a terminal. */
static int host_is_terminal(lua_State *L)
{
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* host.columns(): the terminal's width, or nil if standard output is none. */
static int host_columns(lua_State *L)
{
  struct winsize size;

  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  lua_pushinteger(L, size.ws_col);
  return 1;
}

/* host.directory(path): the names in a folder, folders with a '/' behind, or nil and the reason. */
static int host_directory(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);
  DIR *folder = opendir(path);
  const struct dirent *entry;
  int n = 0;

  if (!folder) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", path, strerror(errno));
    return 2;
  }
  lua_newtable(L);
  while ((entry = readdir(folder)) != NULL) {
    struct stat facts;

    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (fstatat(dirfd(folder), entry->d_name, &facts, 0) == 0 && S_ISDIR(facts.st_mode)) {
      lua_pushfstring(L, "%s/", entry->d_name);
    } else {
      lua_pushstring(L, entry->d_name);
    }
    lua_rawseti(L, -2, ++n);
  }
  closedir(folder);
  return 1;
}

/* host.make_directory(path): true, also where it exists; else nil and the reason. */
static int host_make_directory(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);

  if (mkdir(path, 0777) == 0 || errno == EEXIST) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, strerror(errno));
  return 2;
}

void rg_host_terminal(lua_State *L)
{
  static const luaL_Reg functions[] = {
    { "is_terminal", host_is_terminal },
    { "columns", host_columns },
    { "directory", host_directory },
    { "make_directory", host_make_directory },
    { NULL, NULL },
  };
  luaL_register(L, NULL, functions);
}
