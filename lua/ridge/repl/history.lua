-- SPDX-License-Identifier: MIT
--- The lines typed in earlier sessions: a text file in the XDG state folder, one entry a line, with
--- newlines of an entry written as \n. Entries are appended one by one, so parallel sessions share
--- the file. A line that begins with a blank is not kept.

local output = require 'ridge.ffi.output'

local M = {}

local KEPT = 5000 -- entries; the file is cut to that when it has grown by half

--- Where the history is: RIDGE_HISTORY, else ridge/history in the XDG state folder; nil where
--- there is no home.
---@return string|nil path
function M.path()
  local given = os.getenv 'RIDGE_HISTORY'
  if given then return given ~= '' and given or nil end
  local state = os.getenv 'XDG_STATE_HOME'
  if state and state ~= '' then return state .. '/ridge/history' end
  local home = os.getenv 'HOME'
  return home and home ~= '' and home .. '/.local/state/ridge/history' or nil
end

local function encode(entry)
  return (entry:gsub('\\', '\\\\'):gsub('\n', '\\n'))
end

local function decode(line)
  return (line:gsub('\\(.)', function(c) return c == 'n' and '\n' or c end))
end

--- Make the folders of a path.
local function make_folders(path)
  local host = package.loaded['ridge.host']
  if not host then return end
  for at in path:gmatch '()/' do
    if at > 1 then host.make_directory(path:sub(1, at - 1)) end
  end
end

--- The entries of a file, the oldest first; empty if there is none.
---@param path string|nil the file
---@return string[] entries
function M.read(path)
  local list = {}
  local file = path and io.open(path, 'r')
  if not file then return list end
  for line in file:lines() do list[#list + 1] = decode(line) end
  file:close()
  if #list > KEPT * 1.5 then
    local kept = {}
    for i = #list - KEPT + 1, #list do kept[#kept + 1] = list[i] end
    M.rewrite(path, kept)
    return kept
  end
  return list
end

--- Replace the file as a whole.
---@param path string the file
---@param entries string[] what it shall hold
function M.rewrite(path, entries)
  local lines = {}
  for i, entry in ipairs(entries) do lines[i] = encode(entry) .. '\n' end
  pcall(output.write, path, 'history', table.concat(lines)) -- the longer file is none the worse
end

--- Append an entry.
---@param path string|nil the file; nothing is kept without one
---@param entry string what was typed
---@return boolean kept
function M.append(path, entry)
  if not path or entry:find '^%s' or entry == '' then return false end
  local file = io.open(path, 'a')
  if not file then
    make_folders(path)
    file = io.open(path, 'a')
  end
  if not file then return false end
  file:write(encode(entry) .. '\n')
  file:close()
  return true
end

return M
