-- SPDX-License-Identifier: MIT
-- The checks of scripts/check, each shown a small tree that keeps its rule, then the same tree with
-- one violation planted, which it must name.

local Tree = dofile("scripts/check/tree.lua")

local LICENCE_C = "/* SPDX-License-Identifier: MIT */\n"
local LICENCE_LUA = "-- SPDX-License-Identifier: MIT\n"

-- A tree that every check but exports accepts as it is.
local CLEAN = {
  ["README.md"] = "A tree.\n",
  ["core/README.md"] = "- `ridge.h` the interface\n- `ridge.c` start-up, see `rg_start()`\n",
  ["core/ridge.h"] = LICENCE_C .. [[
#ifndef RIDGE_H
#define RIDGE_H
#define RG_API __attribute__((visibility("default")))

/* Start with n threads. */
RG_API int rg_start(int n);

#endif
]],
  ["core/ridge.c"] = LICENCE_C .. [[
#include "ridge.h"

int rg_start(int n)
{
  return n;
}
]],
  ["core/base/README.md"] = "- `clock.h` time\n",
  ["core/base/clock.h"] = LICENCE_C,
  ["core/op/README.md"] = "- `run.c` the dispatcher\n",
  ["core/op/run.c"] = LICENCE_C .. '#include "base/clock.h"\nextern int rg_now;\n',
  ["lua/ridge/README.md"] = "- `init.lua` the front\n- `blame.lua` errors\n",
  ["lua/ridge/blame.lua"] = LICENCE_LUA .. "local M = {}\nreturn M\n",
  ["lua/ridge/init.lua"] = LICENCE_LUA .. [[
local M = { blame = require "ridge.blame" }

--- Say it.
---@param word string what to say
function M.say(word) return word end

return M
]],
  ["recipes/README.md"] = "- `run.lua` runs\n",
  ["recipes/run.lua"] = LICENCE_LUA .. "-- Runs the whole thing once.\nreturn require \"ridge\"\n",
}

local function write(root, path, text)
  local folder = path:match("^(.*)/")
  if folder then assert(os.execute("mkdir -p " .. Tree.quote(root .. "/" .. folder)) == 0) end
  local file = assert(io.open(root .. "/" .. path, "w"))
  file:write(text)
  file:close()
end

-- What a check prints about the clean tree with some files replaced, and whether it passes.
local function check(name, changes, before)
  local root = Tree.run("mktemp -d")[1]
  for path, text in pairs(CLEAN) do write(root, path, text) end
  for path, text in pairs(changes or {}) do write(root, path, text) end
  os.execute("cp .clang-format .clang-tidy .luacheckrc " .. root)
  if before then os.execute("cd " .. root .. " && " .. before) end
  local lines, ok = Tree.run("luajit scripts/check/" .. name .. ".lua " .. root .. " 2>&1")
  os.execute("rm -rf " .. Tree.quote(root))
  return table.concat(lines, "\n"), ok
end

local function accepts(name, changes, before)
  local output, ok = check(name, changes, before)
  assert.are.equal("", output)
  assert.is_true(ok)
end

local function refuses(name, words, changes, before)
  local output, ok = check(name, changes, before)
  assert.is_false(ok)
  assert.truthy(output:find(words, 1, true), output)
end

local function with(path, old, new)
  local text, n = CLEAN[path]:gsub(old:gsub("%p", "%%%0"), (new:gsub("%%", "%%%%")))
  assert(n == 1, "nothing replaced in " .. path)
  return { [path] = text }
end

describe("layers", function()
  it("accepts includes and requires that go down", function() accepts("layers") end)
  it("refuses an include that goes up", function()
    refuses("layers", "core/base/clock.h:2: core/base/clock.h may not see core/op/run.h",
      { ["core/base/clock.h"] = LICENCE_C .. '#include "op/run.h"\n', ["core/op/run.h"] = "" })
  end)
  it("refuses a side-by-side room", function()
    refuses("layers", "may not see core/cpu/cpu.h",
      { ["core/grad/tape.c"] = LICENCE_C .. '#include "cpu/cpu.h"\n', ["core/cpu/cpu.h"] = "" })
  end)
  it("refuses oneDNN outside its one file", function()
    refuses("layers", "<oneapi/dnnl/dnnl.h> may be included only",
      with("core/op/run.c", '"base/clock.h"', "<oneapi/dnnl/dnnl.h>"))
  end)
  it("refuses a require that goes up", function()
    refuses("layers", "lua/ridge/blame.lua may not see ridge:",
      with("lua/ridge/blame.lua", "local M = {}", 'local M = { r = require("ridge") }'))
  end)
  it("refuses a room that the table does not have", function()
    refuses("layers", 'room "attic" is not in the table',
      { ["core/attic/old.c"] = LICENCE_C .. '#include "base/clock.h"\n' })
  end)
end)

describe("exports", function()
  local BUILD = "mkdir build && cc -shared -fPIC -fvisibility=hidden -Icore " ..
    "-o build/libridge.so core/ridge.c"
  it("accepts a library with just the declared names", function() accepts("exports", {}, BUILD) end)
  it("refuses a declared name that is missing", function()
    refuses("exports", "rg_stop is declared but not exported",
      with("core/ridge.h", "RG_API int rg_start(int n);",
        "RG_API int rg_start(int n);\nRG_API const char *rg_stop(void);"), BUILD)
  end)
  it("refuses an exported name that is not declared", function()
    refuses("exports", "rg_extra is exported but not declared", with("core/ridge.c",
      "int rg_start(int n)", "RG_API int rg_extra(void);\nint rg_extra(void) { return 1; }\n" ..
      "int rg_start(int n)"), BUILD)
  end)
  it("says that there is no library", function() refuses("exports", "run make first") end)
end)

describe("docs", function()
  it("accepts named arguments", function() accepts("docs") end)
  it("refuses a prototype without a comment", function()
    refuses("docs", "rg_start has no comment",
      with("core/ridge.h", "/* Start with n threads. */\n", ""))
  end)
  it("refuses an argument that the comment does not name", function()
    refuses("docs", 'core/ridge.h:7: rg_start: the comment does not name "n"',
      with("core/ridge.h", "with n threads", "with threads"))
  end)
  it("reads prototypes that a macro makes", function()
    refuses("docs", 'the comment does not name "y"', with("core/ridge.h", "#endif",
      "/* Of x. */\n#define F(name) \\\n  RG_API int rg_##name(int x, int y);\nF(add)\n\n#endif"))
  end)
  it("refuses a missing and a stale @param", function()
    local changes = with("lua/ridge/init.lua", "---@param word", "---@param text")
    refuses("docs", "M.say: no @param word", changes)
    refuses("docs", "M.say: @param text is not an argument", changes)
  end)
  it("refuses a recipe without a description", function()
    refuses("docs", "recipes/run.lua:1: no comment at its head",
      with("recipes/run.lua", "-- Runs the whole thing once.\n", ""))
  end)
end)

describe("map", function()
  it("accepts a true one", function() accepts("map") end)
  it("refuses an unlisted file", function()
    refuses("map", "core/base/README.md:1: does not list `thread.c`",
      { ["core/base/thread.c"] = LICENCE_C })
  end)
  it("refuses a path that is not there", function()
    refuses("map", "core/base/README.md:2: watch.c is not there",
      { ["core/base/README.md"] = "- `clock.h` time\n- `watch.c` gone\n" })
  end)
  it("refuses a file listed twice", function()
    refuses("map", "clock.h is listed twice",
      { ["core/base/README.md"] = "- `clock.h` time\n- `clock.h` time\n" })
  end)
  it("refuses a function that is elsewhere", function()
    refuses("map", "rg_begin() is not in core/ridge.c",
      with("core/README.md", "rg_start()", "rg_begin()"))
  end)
  it("refuses code that no README.md lists", function()
    refuses("map", "no folder above it has a README.md", { ["tools/a.c"] = LICENCE_C })
  end)
end)

describe("size", function()
  it("accepts 600 lines of 100 columns, UTF-8 counted once", function()
    accepts("size", { ["core/a.c"] = (("é"):rep(100) .. "\n"):rep(600) })
  end)
  it("refuses 601 lines", function()
    refuses("size", "core/a.c:601: 601 lines", { ["core/a.c"] = ("\n"):rep(601) })
  end)
  it("refuses 101 columns", function()
    refuses("size", "core/a.c:2: 101 columns", { ["core/a.c"] = "\n" .. ("x"):rep(101) .. "\n" })
  end)
end)

describe("text", function()
  it("accepts banned words in comments, strings and tests", function()
    accepts("text", {
      ["core/op/run.c"] = LICENCE_C .. '/* gets(x)\n   exit(1) */\nconst char *s = "abort()";\n',
      ["tests/c/a.c"] = LICENCE_C .. "int f(void) { abort(); }\n",
    })
  end)
  for _, call in ipairs { "strcpy(a, b)", "sprintf(a, b)", "abort()", "exit(1)", "assert(x)" } do
    it("refuses " .. call, function()
      refuses("text", "core/op/run.c:2: " .. call:match("%a+") .. "(): use",
        { ["core/op/run.c"] = LICENCE_C .. "void f(void) { " .. call .. "; }\n" })
    end)
  end
  it("refuses a tab, a note and a missing licence", function()
    refuses("text", "run.c:2: a tab", { ["core/op/run.c"] = LICENCE_C .. "\tint x;\n" })
    refuses("text", "run.c:2: TO" .. "DO",
      { ["core/op/run.c"] = LICENCE_C .. "/* TO" .. "DO */\n" })
    refuses("text", "run.c:1: no SPDX", { ["core/op/run.c"] = "int x;\n" })
  end)
end)

describe("format", function()
  it("accepts what clang-format writes", function() accepts("format") end)
  it("refuses another indent", function()
    refuses("format", "core/ridge.c:5: not as clang-format",
      with("core/ridge.c", "{\n  return", "{\n    return"))
  end)
end)

describe("lint", function()
  it("accepts clean code", function() accepts("lint") end)
  it("refuses a Lua global", function()
    refuses("lint", "lua/ridge/blame.lua:2: setting non-standard global variable 'M'",
      with("lua/ridge/blame.lua", "local M", "M"))
  end)
  it("refuses what cppcheck finds", function()
    refuses("lint", "arrayIndexOutOfBounds", with("core/ridge.c", "return n;",
      "int a[2] = { n, n };\n  return a[n > 5 ? 2 : 2];"))
  end)
  it("refuses what clang-tidy finds", function()
    refuses("lint", "bugprone-branch-clone", with("core/ridge.c", "return n;",
      "if (n > 3) {\n    return 1;\n  } else {\n    return 1;\n  }"))
  end)
end)

describe("make strict", function()
  -- What it says of a tree with one source, whose objects are made anew or from the time before.
  local function strict(root, source)
    if source then write(root, "core/a.c", source) end
    return Tree.run("cd " .. root .. " && env -u MAKEFLAGS -u MAKELEVEL make -s strict " ..
      "CORE=core/a.c SIMD= HOSTOBJ= CTESTS= MPI_INC= 2>&1")
  end
  it("refuses what the compiler warned of, however long ago", function()
    local root = Tree.run("mktemp -d")[1]
    os.execute("mkdir -p " .. root .. "/scripts " .. root .. "/gpu " .. root .. "/build && cp " ..
      "Makefile " .. root .. " && cp gpu/gpu.mk " .. root .. "/gpu && touch " .. root ..
      "/scripts/deps " .. root .. "/build/deps.mk")
    local lines, ok = strict(root, "int f(void);\nint f(void) { return 1; }\n")
    assert.is_true(ok, table.concat(lines, "\n"))
    for _, source in ipairs { "int f(void);\nint f(void) { int n; return 1; }\n", false } do
      lines, ok = strict(root, source)
      assert.is_false(ok)
      assert.truthy(table.concat(lines, "\n"):find("unused variable", 1, true))
    end
    -- objects of a ridge that did not keep it
    os.remove(root .. "/build/obj/core/a.o.said")
    lines, ok = strict(root)
    assert.is_false(ok)
    assert.truthy(lines[1]:find("^build has objects .*: make clean$"), lines[1])
    os.execute("rm -rf " .. Tree.quote(root))
  end)
end)
