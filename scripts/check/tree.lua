-- SPDX-License-Identifier: MIT
-- What every check starts from: the files of a source tree, their lines, its list of violations.
--
-- A check is `luajit scripts/check/NAME.lua [root]`; it prints `path:line: sentence` for each
-- violation and ends with exit code 1 if there was one.  Files are those git knows or would add;
-- in a tree without git (the checks' own tests) all files.

local Tree = {}
Tree.__index = Tree

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- What a shell command prints, as a list of lines, and whether it succeeded.
---@param command string
---@return string[] lines
---@return boolean ok
function Tree.run(command)
  local lines = {}
  local pipe = assert(io.popen(command .. "; echo $?"))
  for line in pipe:lines() do lines[#lines + 1] = line end
  pipe:close()
  return lines, table.remove(lines) == "0"
end

Tree.quote = quote

--- The tree a check was asked to look at.
---@param root string
---@return table
function Tree.open(root)
  root = root or "."
  local self = setmetatable({ root = root, failures = {}, exists = {} }, Tree)
  local command = "cd " .. quote(root) .. " && if [ -e .git ]; then git ls-files -co " ..
    "--exclude-standard; else find . -type f | sed 's,^[.]/,,'; fi | sort -u"
  self.files = {}
  for _, path in ipairs((Tree.run(command))) do
    local file = io.open(root .. "/" .. path)
    if file then
      file:close()
      self.files[#self.files + 1] = path
      self.exists[path] = true
      for slash in path:gmatch("()/") do self.exists[path:sub(1, slash - 1)] = true end
    end
  end
  return self
end

--- The files whose path matches one of some Lua patterns.
---@param ... string patterns
---@return string[]
function Tree:matching(...)
  local found = {}
  for _, path in ipairs(self.files) do
    for _, pattern in ipairs { ... } do
      if path:find(pattern) then
        found[#found + 1] = path
        break
      end
    end
  end
  return found
end

--- A file's text.
---@param path string
---@return string
function Tree:read(path)
  local file = assert(io.open(self.root .. "/" .. path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

--- Walk over a file's lines, and one more if `extra`: `for number, line in tree:lines(path)`.
---@param path string
function Tree:lines(path, extra)
  local text = self:read(path) .. (extra and "\n" or "")
  local next_line, number = (text:find("\n$") and text or text .. "\n"):gmatch("(.-)\n"), 0
  return function()
    local line = next_line()
    number = number + 1
    return line and number, line
  end
end

--- Note a violation.
---@param path string
---@param line integer
---@param ... any  format and its arguments
function Tree:fail(path, line, ...)
  self.failures[#self.failures + 1] = ("%s:%d: %s"):format(path, line, (string.format(...)))
end

--- Print the violations and end the process.
function Tree:finish()
  for _, failure in ipairs(self.failures) do print(failure) end
  os.exit(#self.failures == 0 and 0 or 1)
end

return Tree
