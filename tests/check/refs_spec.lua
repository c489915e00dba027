-- SPDX-License-Identifier: MIT
-- What scripts/check/refs.lua finds: each mistake planted in a tree that has none.

local Tree = dofile("scripts/check/tree.lua")

local CLEAN = {
  ["docs/a.md"] = "# A\n\n## 1 One\n\n### 1.1 Some\n\n## Several words\n\nsee `core/a.c`\n",
  ["core/a.h"] = "int rg_start(int n);\n",
  ["core/a.c"] = '#include "a.h"\n/* rg_start, rg_st...: docs/a.md 1.1 (docs/a.md, 1) */\n' ..
    '/* -- A part ----------- */\nint rg_start(int n) { return n; }\n',
  ["lua/ridge/a.lua"] = '--- Of rg_start, in a.c: docs/a.md, "Several words".\n-- A second part.\n',
}

-- What the check prints of the clean tree with some files replaced.
local function check(changes)
  local root = Tree.run("mktemp -d")[1]
  for _, files in ipairs { CLEAN, changes or {} } do
    for path, text in pairs(files) do
      os.execute("mkdir -p " .. Tree.quote(root .. "/" .. (path:match("^(.*)/") or "")))
      local file = assert(io.open(root .. "/" .. path, "w"))
      file:write(text)
      file:close()
    end
  end
  local lines, ok = Tree.run("luajit scripts/check/refs.lua " .. root .. " 2>&1")
  os.execute("rm -rf " .. Tree.quote(root))
  assert.are.equal(ok, #lines == 0)
  return table.concat(lines, "\n")
end

describe("refs", function()
  it("accepts what is there", function() assert.are.equal("", check()) end)
  local PLANTED = {
    { "a page that is not there", "docs/gone.md is not there",
      { ["core/b.c"] = "/* As in docs/gone.md. */\n" } },
    { "a section by number", "docs/a.md has no section 2.1",
      { ["core/b.c"] = "/* (docs/a.md 2.1): so */\n" } },
    { "a section by its words", "docs/a.md has no section Few words",
      { ["lua/ridge/b.lua"] = '-- See docs/a.md, "Few words".\n' } },
    { "a citation over two lines", "docs/a.md has no section 7",
      { ["core/b.c"] = "/* (docs/a.md, section\n** 7) */\n" } },
    { "a source file", "core/gone.c is not there", { ["docs/b.md"] = "see core/gone.c\n" } },
    { "a source file by its name", "gone.c is not there",
      { ["core/b.c"] = "/* what gone.c does */\n" } },
    { "a function", "rg_stop is not in the code", { ["core/b.c"] = "/* rg_stop ends it */\n" } },
    { "a torn comment", "lua/ridge/b.lua:2: a comment that began with ---",
      { ["lua/ridge/b.lua"] = "--- Of all that is\n-- there.\n" } },
    { "a ruler over two lines", "core/b.c:1: a ruler over two lines",
      { ["core/b.c"] = "/* -- Plans\n * ------ */\n" } },
  }
  for _, case in ipairs(PLANTED) do
    it("finds " .. case[1], function()
      local output = check(case[3])
      assert.truthy(output:find(case[2], 1, true), output)
    end)
  end
end)
