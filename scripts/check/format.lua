-- SPDX-License-Identifier: MIT
-- format: clang-format would change nothing in the C files (`make format` lets it).
-- With --write as its argument it formats instead of checking.

package.path = "scripts/check/?.lua;" .. package.path
local Tree = require "tree"
local write = arg[1] == "--write"
local tree = Tree.open(arg[write and 2 or 1])

local files = {}
for i, path in ipairs(tree:matching("%.[ch]$", "%.cuh?$")) do files[i] = Tree.quote(path) end
if #files > 0 then
  local command = "cd %s && clang-format %s %s 2>&1"
  local lines, ok = Tree.run(command:format(Tree.quote(tree.root),
    write and "-i" or "--dry-run -Werror", table.concat(files, " ")))
  local seen = {}
  for _, line in ipairs(lines) do
    local path, number = line:match("^(.-):(%d+):%d+: error")
    if path and not seen[path] then
      tree:fail(path, tonumber(number), "not as clang-format writes it (make format)")
      seen[path] = true
    end
  end
  if not ok and #tree.failures == 0 then tree:fail(".clang-format", 1, "%s", lines[1] or "?") end
end

tree:finish()
