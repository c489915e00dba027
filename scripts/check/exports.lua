-- SPDX-License-Identifier: MIT
-- exports: what build/libridge.so exports is what core/ridge.h declares with RG_API, no more and no
-- less.

package.path = "scripts/check/?.lua;" .. package.path
local Tree = require "tree"
local tree = Tree.open(arg[1])

local HEADER, LIBRARY = "core/ridge.h", "build/libridge.so"
local at = "cd " .. Tree.quote(tree.root) .. " && "

-- RG_API is the visibility attribute, so the preprocessed header shows every prototype, those made
-- by the lists of operations included.
local text, preprocessed = Tree.run(at .. "${CC:-cc} -E -P -Icore " .. HEADER)
if not preprocessed then
  tree:fail(HEADER, 1, "the preprocessor refuses it")
  tree:finish()
end
local declared = {}
for prototype in table.concat(text, " "):gmatch('visibility%("default"%)(.-;)') do
  declared[prototype:match("([%w_]+)%s*%(", (prototype:find("%)")))] = true
end

local symbols, listed = Tree.run(at .. "nm -D --defined-only " .. LIBRARY .. " 2>&1")
if not listed then
  tree:fail(LIBRARY, 1, "cannot be read; run make first")
  tree:finish()
end
local exported = {}
for _, line in ipairs(symbols) do
  local name = line:match("%s%a%s+([%w_]+)")
  if name then exported[name] = true end
end

for name in pairs(declared) do
  if not exported[name] then tree:fail(HEADER, 1, "%s is declared but not exported", name) end
end
for name in pairs(exported) do
  if not declared[name] then tree:fail(LIBRARY, 1, "%s is exported but not declared", name) end
end
table.sort(tree.failures)
tree:finish()
