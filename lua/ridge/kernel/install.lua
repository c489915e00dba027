-- SPDX-License-Identifier: MIT
--- Where Jupyter looks for kernels, and the file that says how this one is started.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local host = require 'ridge.host'
local output = require 'ridge.ffi.output'
local place = require 'ridge.store.place'
local zmq = require 'ridge.kernel.zmq'

local M = {}

--- What Jupyter reads.
---@param program string path of ridge
---@return string json
function M.spec(program)
  return canonical.encode {
    argv = canonical.list { program, 'kernel', '{connection_file}' }, display_name = 'ridge (Lua)',
    language = 'lua', interrupt_mode = 'message', metadata = { debugger = false },
  } .. '\n'
end

-- The folder of a kernel.
local function folder_of(opt)
  if not opt.name:find '^[%w._-]+$' or opt.name:find '^%.+$' then
    blame.raise(("--name: '%s' is no name of letters, digits, dots, - and _"):format(opt.name),
      'EARG')
  end
  local data
  if opt.prefix ~= '' then
    data = opt.prefix:gsub('(.)/+$', '%1') .. '/share/jupyter'
  else
    local function set(value) return value ~= '' and value or nil end
    local jupyter, xdg, home = set(os.getenv 'JUPYTER_DATA_DIR'), set(os.getenv 'XDG_DATA_HOME'),
      set(os.getenv 'HOME')
    data = jupyter or xdg and xdg .. '/jupyter' or home and home .. '/.local/share/jupyter'
    if not data then blame.raise('HOME is not set: --prefix says where', 'EARG') end
  end
  return data .. '/kernels/' .. opt.name:lower()
end

-- This program, wherever it is started from.
local function this_program()
  local path = place.real '/proc/self/exe'
  if not host.executable or not path then
    blame.raise('--program says which ridge is started', 'EARG')
  end
  return path
end

--- Write the file.
---@param opt table name, prefix, program: '' where not given
---@return string text what was done
function M.install(opt)
  local folder = folder_of(opt)
  local path, at = '', opt.program ~= '' and opt.program or this_program()
  for part in folder:gmatch '[^/]+' do
    path = path .. (path == '' and folder:sub(1, 1) ~= '/' and '' or '/') .. part
    place.make_folder(path)
  end
  output.write(folder .. '/kernel.json', 'kernel', M.spec(at))
  return ('%s/kernel.json starts %s%s'):format(folder, at, zmq.found() and ''
    or '\nit needs ZeroMQ, which is not here: apt-get install libzmq5')
end

--- Take it away.
---@param opt table name, prefix
---@return string text what was done
function M.remove(opt)
  local folder = folder_of(opt)
  local path = folder .. '/kernel.json'
  if not place.exists(path) then blame.raise(path .. ' is not there', 'EIO') end
  local ok, reason = os.remove(path)
  if not ok then blame.raise(reason, 'EIO') end
  os.remove(folder) -- where nothing else is in it
  return path .. ' is gone'
end

return M
