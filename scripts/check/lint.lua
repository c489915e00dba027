-- SPDX-License-Identifier: MIT
-- lint: luacheck and cppcheck on everything, clang-tidy on the files that the work tree or the last
-- commit changed (on all with --all, as the nightly run does).  The compiler's own warnings are
-- `make strict`.

package.path = "scripts/check/?.lua;" .. package.path
local Tree = require "tree"
local all = arg[1] == "--all"
local tree = Tree.open(arg[all and 2 or 1])

local FLAGS = "-std=c11 -D_GNU_SOURCE -fopenmp -Icore -Ibuild -I/usr/include/luajit-2.1 " ..
  "-DRG_SIMD=base -DRG_FLAGS=__FILE__"
local AT = "cd " .. Tree.quote(tree.root) .. " && "
local HERE = Tree.run(AT .. "pwd")[1]:gsub("%p", "%%%0")
local TWO_AT_ONCE = "xargs -0 -r -n 4 -P 2 "

-- Run a tool over files; what it prints (only lines that match, if a pattern is given) fails.
local function lint(tool, files, pattern)
  if #files == 0 then return end
  local list = {}
  for i, path in ipairs(files) do list[i] = Tree.quote(path) end
  local lines, ok = Tree.run(AT .. "printf '%s\\0' " .. table.concat(list, " ") .. " | " ..
    TWO_AT_ONCE .. tool .. " 2>&1")
  local found = 0
  for _, line in ipairs(lines) do
    local path, number, text = line:match("^%s*([^%s:]+):(%d+):[%d:]*%s*(.*)$")
    if path and (not pattern or text:find(pattern)) then
      tree:fail(path:gsub("^" .. HERE .. "/", ""), tonumber(number), "%s", text)
      found = found + 1
    end
  end
  if not ok and found == 0 then
    tree:fail(tool:match("^%S+"), 1, "failed: %s", table.concat(lines, " "))
  end
end

local function changed()
  local set = {}
  for _, command in ipairs { "git diff --name-only HEAD", "git ls-files -o --exclude-standard",
    "git diff --name-only HEAD~1 HEAD" } do
    for _, path in ipairs((Tree.run(AT .. command .. " 2>/dev/null"))) do set[path] = true end
  end
  return set
end

local sources = tree:matching("^core/.*%.c$", "^lua/.*%.c$")
local tidy = {}
local touched = not all and changed()
for _, path in ipairs(sources) do
  if all or touched[path] then tidy[#tidy + 1] = path end
end

lint("luacheck -q --no-color --no-max-line-length --formatter plain", tree:matching("%.lua$"))
lint("cppcheck --quiet --enable=warning,performance,portability --inline-suppr --std=c11 -Icore" ..
  " -Ibuild --error-exitcode=1 --template='{file}:{line}:1: {message} ({id})'", sources)
lint("sh -c 'clang-tidy --quiet \"$@\" -- " .. FLAGS .. "' clang-tidy", tidy, "error")

tree:finish()
