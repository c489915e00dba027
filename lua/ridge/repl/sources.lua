-- SPDX-License-Identifier: MIT
--- ridge's own Lua sources as text: embedded in the program, or the files they are loaded from.

local M = {}

local host = package.loaded['ridge.host']

--- The folder that holds ridge/, when ridge is loaded from files; nil when it is embedded.
local function tree()
  local folder = os.getenv 'RIDGE_LUA'
  if folder and folder ~= '' then return folder end
  return debug.getinfo(1, 'S').source:match '^@(.*)/ridge/repl/sources%.lua$'
end

-- The files below root/folder whose names end so, from root on.
local function tree_files(root, folder, ending)
  local quoted = "'" .. (root .. '/' .. folder):gsub("'", "'\\''") .. "'"
  local pipe = io.popen('find ' .. quoted .. " -name '*" .. ending .. "' -type f 2>/dev/null")
  local list = {}
  if not pipe then return list end
  for path in pipe:lines() do list[#list + 1] = path:sub(#root + 2) end
  pipe:close()
  table.sort(list)
  return list
end

local function embedded(pattern)
  local list = {}
  for _, path in ipairs(host and host.files() or {}) do
    if path:find(pattern) then list[#list + 1] = path end
  end
  return list
end

-- A file of a tree, or one that is embedded where there is no tree.
local function read(file_path, path)
  if not file_path then return host and host.source(path) end
  local file = io.open(file_path, 'rb')
  if not file then return nil end
  local text = file:read '*a'
  file:close()
  return text
end

--- The paths of all sources, sorted: 'ridge/nn/linear.lua'.
---@return string[] paths
function M.files()
  local root = tree()
  if root then return tree_files(root, 'ridge', '.lua') end
  return embedded '^ridge/'
end

--- The paths of the written pages of the documentation, sorted: 'docs/why/passes.md'.
---@return string[] paths
function M.documents()
  local root = tree()
  if root then return tree_files(root .. '/..', 'docs', '.md') end
  return embedded '^docs/'
end

--- The text of such a page.
---@param path string as `documents` gives it
---@return string|nil text
function M.document(path)
  local root = tree()
  return read(root and root .. '/../' .. path, path)
end

--- The text of a source, or nil if there is none of that path.
---@param path string as `files` gives it
---@return string|nil text
function M.text(path)
  local root = tree()
  return read(root and root .. '/' .. path, path)
end

--- The path, as `files` gives it, of what debug.getinfo calls a source; nil if it is not ridge's.
---@param source string '@ridge/nn/linear.lua' or '@/home/me/ridge/lua/ridge/nn/linear.lua'
---@return string|nil path
function M.path_of(source)
  local root = tree()
  if root and source:sub(1, #root + 2) == '@' .. root .. '/' then return source:sub(#root + 3) end
  return source:match '^@(ridge/.*)$' or source:match '^@.*lua/(ridge/.*)$'
end

--- The module a source is: 'ridge.nn.linear'.
---@param path string as `files` gives it
---@return string name
function M.module_of(path)
  return (path:gsub('/init%.lua$', ''):gsub('%.lua$', ''):gsub('/', '.'))
end

return M
