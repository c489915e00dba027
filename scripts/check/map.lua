-- SPDX-License-Identifier: MIT
-- map: the README.md of a folder lists each of its files once, and every path and `function()` that
-- a README.md names is there.
--
-- A folder without a README.md is listed, file by file, in that of the nearest folder above it.

package.path = "scripts/check/?.lua;" .. package.path
local tree = require "tree".open(arg[1])

local CODE = { "%.[ch]$", "%.cuh?$", "%.lua$", "%.sh$", "^scripts/[^.]+$" }
-- Made, not kept: README files may name them.
local MADE = { "^build/", "^results/", "^ridge$", "^%./ridge$" }

local function matches(path, patterns)
  for _, pattern in ipairs(patterns) do
    if path:find(pattern) then return true end
  end
end

-- The text in which a function named in a README must be found.
local everything
local function text_of(paths)
  if #paths == 0 then
    everything = everything or text_of(tree:matching(unpack(CODE)))
    return everything
  end
  local texts = {}
  for i, path in ipairs(paths) do texts[i] = tree:read(path) end
  return table.concat(texts, "\n")
end

-- Every path a README's line names in backquotes; report those that are not there.
local function paths_of(readme, folder, number, line)
  local found = {}
  for word in line:gmatch("`([^`]+)`") do
    local looks = word:find("^[%w_%-./]+$") and not word:find("^%-") and
      (word:find("/") or word:find("%.[chl][uda]?[ah]?$") or word:find("%.md$"))
    local target = word:gsub("/$", "")
    if tree.exists[folder .. target] then
      found[#found + 1] = folder .. target
    elseif tree.exists[target] or tree.exists["core/" .. target] then
      found[#found + 1] = tree.exists[target] and target or "core/" .. target
    elseif looks and not matches(word, MADE) and not word:find("^/") then
      tree:fail(readme, number, "%s is not there", word)
    end
  end
  return found
end

local readmes, listed = {}, {}
for _, path in ipairs(tree:matching("^README%.md$", "/README%.md$")) do
  local folder = path:match("^(.*/)") or ""
  readmes[folder] = path
  local item = {} -- the files the current bullet speaks of
  for number, line in tree:lines(path) do
    local found = paths_of(path, folder, number, line)
    local bullet = line:match("^[-*|]%s*`([^`]+)`")
    if not line:find("^%s+%S") then item = {} end
    for _, file in ipairs(found) do
      if not file:find("/$") and tree:matching("^" .. file:gsub("%p", "%%%0") .. "$")[1] then
        item[#item + 1] = file
      end
    end
    if bullet and found[1] == folder .. bullet then
      if listed[found[1]] == path then tree:fail(path, number, "%s is listed twice", bullet) end
      listed[found[1]] = path
    end
    for word in line:gmatch("`([%w_.:]+)%(%)`") do
      if not text_of(item):find("%f[%w_]" .. word:match("[%w_]+$") .. "%f[^%w_]") then
        tree:fail(path, number, "%s() is not in %s", word, item[1] or "any file")
      end
    end
  end
end

for _, path in ipairs(tree:matching(unpack(CODE))) do
  local folder = path:match("^(.*/)") or ""
  while folder ~= "" and not readmes[folder] do
    folder = folder:match("^(.*/)[^/]+/$") or ""
  end
  if folder == "" and path:find("/") then
    tree:fail(path, 1, "no folder above it has a README.md that could list it")
  elseif folder ~= "" and listed[path] ~= readmes[folder] then
    tree:fail(readmes[folder], 1, "does not list `%s`", path:sub(#folder + 1))
  end
end

tree:finish()
