-- SPDX-License-Identifier: MIT
--- The `ridge` program as tests start it: its path, a clean environment, a folder that goes away.

local pty = require 'tests.lua.repl.pty'

local M = {}

--- The program: ./ridge of this tree, or RIDGE_PROGRAM.
M.path = os.getenv 'RIDGE_PROGRAM' or './ridge'

--- A new empty folder.
---@return string path
function M.folder()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute('mkdir ' .. path) == 0)
  return path
end

--- Remove a folder made by `folder`.
---@param path string what `folder` gave
function M.remove(path)
  assert(path:find '^/tmp/[^/]+$')
  os.execute('rm -rf ' .. path)
end

--- A prompt in a terminal, with its home in a folder.
---@param home string the folder
---@param env? table more variables
---@param args? string[] arguments
---@return table terminal
function M.prompt(home, env, args)
  local vars = { TERM = 'xterm', HOME = home, PATH = os.getenv 'PATH', NO_COLOR = '1',
    LANG = 'C.UTF-8', RIDGE_LUA = os.getenv 'RIDGE_LUA' or '',
    ASAN_OPTIONS = os.getenv 'ASAN_OPTIONS' or '' }
  for name, value in pairs(env or {}) do vars[name] = value end
  return pty.spawn({ M.path, unpack(args or {}) }, vars)
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Run the program to its end. Its leases are its own: whoever else measures on this machine is not
--- waited for.
---@param args string[] arguments
---@param opts? {input: string, env: string} standard input; variables in front, as the shell reads
---@return integer status
---@return string out standard output
---@return string err standard error
function M.run(args, opts)
  opts = opts or {}
  local folder = M.folder()
  local words = { M.path }
  for _, word in ipairs(args) do words[#words + 1] = quote(word) end
  local input = assert(io.open(folder .. '/in', 'w'))
  input:write(opts.input or '')
  input:close()
  local settings = ('HOME=%s NO_COLOR=1 RIDGE_LOCKS=%s/locks'):format(folder, folder)
  local status = os.execute(('env %s %s %s < %s/in > %s/out 2> %s/err'):format(settings,
    opts.env or '', table.concat(words, ' '), folder, folder, folder))
  local texts = {}
  for i, name in ipairs { 'out', 'err' } do
    local file = assert(io.open(folder .. '/' .. name))
    texts[i] = file:read '*a'
    file:close()
  end
  M.remove(folder)
  return bit.rshift(status, 8), texts[1], texts[2]
end

return M
