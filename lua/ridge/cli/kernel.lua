-- SPDX-License-Identifier: MIT
--- `ridge kernel`: Jupyter's.

local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'a kernel for Jupyter: ridge kernel --install'
M.guards = true -- Ctrl-C ends a cell, nothing else
M.usage = 'ridge kernel --install | --remove | FILE'

local SPEC = {
  { 'install', false, 'let Jupyter know of it, for this user' },
  { 'remove', false, 'take that away again' },
  { 'prefix', '', 'there instead: /usr/local, or a virtual environment' },
  { 'name', 'ridge', 'what the kernel is called' },
  { 'program', '', 'the ridge that Jupyter starts; this one when left out' },
  about = [[
FILE is a connection file, which Jupyter writes and hands over. Notebooks show values as the prompt
does, figures as pictures; completion, ?name, interrupts and io.read work. It needs libzmq.so.5,
Debian's libzmq5.

    ridge kernel --install           # then: jupyter lab]],
  rest = 'FILE', most = 1,
}

--- Serve, or install.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('kernel', SPEC, argv, nil, function(opt, rest)
    local place = require 'ridge.kernel.install'
    if opt.install and opt.remove then
      return stored.fail('kernel', '--install and --remove are two things')
    elseif (opt.install or opt.remove) and rest[1] then
      return stored.fail('kernel', 'FILE goes with neither --install nor --remove')
    elseif opt.install then
      plain.print(place.install(opt), '\n')
    elseif opt.remove then
      plain.print(place.remove(opt), '\n')
    elseif rest[1] then
      return require('ridge.kernel').run(rest[1])
    else
      return stored.fail('kernel', 'a connection file is missing; --install lets Jupyter write it')
    end
  end)
end

return M
