-- SPDX-License-Identifier: MIT
--- `ridge stubs`: what an editor's language server reads of ridge.

local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'files for the Lua language server of an editor: ridge stubs .'
M.usage = 'ridge stubs DIR'

local SPEC = {
  about = [[
Writes library/ridge.lua and its modules below DIR as meta files of LuaLS: each public name with its
docstring, parameters, options and results; and .luarc.json, which names them. A .luarc.json that is
there stays as it is.

    ridge stubs .]],
  rest = 'DIR', most = 1,
}

--- Write them.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('stubs', SPEC, argv, nil, function(_, rest)
    if not rest[1] then return stored.fail('stubs', 'a folder is missing') end
    local place, output = require 'ridge.store.place', require 'ridge.ffi.output'
    local folder = rest[1]:gsub('(.)/+$', '%1')
    for _, part in ipairs { '', '/library', '/library/ridge' } do
      place.make_folder(folder .. part)
    end
    local n, kept = 0, false
    for _, file in ipairs(require('ridge.repl.stubs').files(require 'ridge')) do
      local path = folder .. '/' .. file.path
      if file.path == '.luarc.json' and place.exists(path) then
        kept = true
      else
        output.write(path, 'stubs', file.text)
        n = n + 1
      end
    end
    plain.print(('%s: %s\n'):format(folder, plain.count(n, 'file')))
    if kept then
      plain.note(folder, '/.luarc.json is there and stays: its workspace.library has to name ',
        'library\n')
    end
  end)
end

return M
