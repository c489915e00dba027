-- SPDX-License-Identifier: MIT
-- refs: what comments and documents refer to is there: pages and their sections, source files and
-- functions of the core.  And comments are whole: no sentence goes from --- on in --, no ruler over
-- two lines.

package.path = "scripts/check/?.lua;" .. package.path
local tree = require "tree".open(arg[1])

local NOT_OURS = { ["build/"] = true, ["linux/"] = true, ["ridge/"] = true }
local SOURCES = { "%.[ch]$", "%.cuh?$", "%.lua$", "%.md$", "%.mk$" }
local names, code = {}, {} -- file names that are there; identifiers of the core's code
for _, path in ipairs(tree.files) do names[path:match("[^/]+$")] = true end

-- The comment of a line of C or Lua, or a line of Markdown; "" for none.  inside: of a C comment.
local function comment_of(path, line, inside)
  if path:find("%.md$") then return line end
  if path:find("%.lua$") then return line:match("%-%-.*") or "" end
  if path:find("%.mk$") then return line:match("#.*") or "" end
  if inside then return line, not line:find("*/", 1, true) end
  local from = line:find("/*", 1, true) or line:find("//", 1, true)
  if not from then return "" end
  return line:sub(from), line:find("/*", 1, true) and not line:find("*/", from, true)
end

for _, path in ipairs(tree:matching("%.[ch]$", "%.cuh?$", "%.cpp$", "^lua/.*%.lua$")) do
  local inside
  for _, line in tree:lines(path) do
    local comment
    comment, inside = comment_of(path, line, inside)
    for word in line:sub(1, #line - #comment):gmatch("rg_[%w_]+") do code[word] = true end
  end
end

-- Is a section of a page there: a number, or the words of its heading?
local function has_section(page, section)
  for _, line in tree:lines(page) do
    local heading = line:match("^#+%s+(.*)")
    if heading and (heading == section or heading:match("^[%d.]+") == section) then return true end
  end
end

-- A page by its path from the root or from the folder of who cites it; rest: what follows there.
local function check_page(path, number, page, rest)
  local beside = (path:match("^(.*/)") or "") .. page
  while beside:find("[^/]+/%.%./") do beside = beside:gsub("[^/]+/%.%./", "", 1) end
  page = page:gsub("^%.%./", "")
  page = tree.exists[page] and page or tree.exists[beside] and beside or page
  if not tree.exists[page] and not page:find("^%u+/") then
    return names[page] or tree:fail(path, number, "%s is not there", page)
  end
  local section = rest:match("^,? section ([%d.]+)") or rest:match('^, "([^"]+)"') or
    rest:match("^,? ([%d.]+)")
  section = section and section:gsub("%.$", "")
  if section and not has_section(page, section) then
    tree:fail(path, number, "%s has no section %s", page, section)
  end
end

local function is_function(word)
  if code[word] or code[word:gsub("_$", "")] then return true end -- rg_relu_(), made by a macro
  for name in pairs(code) do
    if name:sub(1, #word) == word then return true end -- rg_memory_..., the name of a family
  end
end

for _, path in ipairs(tree:matching(unpack(SOURCES))) do
  local inside, before = nil, ""
  if not path:find("^tests/check/") and not path:find("^results/") and path ~= "CHANGELOG.md" then
    local previous = ""
    for number, line in tree:lines(path, true) do
      local comment
      comment, inside = comment_of(path, line, inside)
      -- a citation may go on in this line
      for page, behind in before:gmatch("([%w_.][%w_./-]*%.md)()") do
        local rest = before:sub(behind) .. " " .. comment:gsub("^[%s*/-]+", "")
        check_page(path, number - 1, page, rest)
      end
      for file in comment:gmatch("%f[%w_/.]([%w_/]+%.[chl][uda]?[ah]?)%f[^%w_/.]") do
        local folder = file:match("^%l+/")
        local ours = folder and not NOT_OURS[folder] and not file:find("%u") or
          file:find("^%w+%.cu?h?$")
        if ours and not names[file:match("[^/]+$")] then
          tree:fail(path, number, "%s is not there", file)
        end
      end
      for word in comment:gmatch("%f[%w_](rg_[%w_]+)") do
        if not is_function(word) then tree:fail(path, number, "%s is not in the code", word) end
      end
      if line:find("^%s*%-%- %l") and previous:find("^%s*%-%-%- .*[%l,]$") then
        tree:fail(path, number, "a comment that began with --- goes on with --")
      end
      if line:find("^%s*/%* %-%- ") and not line:find("*/", 1, true) then
        tree:fail(path, number, "a ruler over two lines")
      end
      before, previous = comment, line
    end
  end
end

tree:finish()
