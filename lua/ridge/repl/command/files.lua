-- SPDX-License-Identifier: MIT
--- %run and %reload: code that is in files.

local blame = require 'ridge.blame'

local function exists(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

local function run(session, request)
  local words = {}
  for word in request.rest:gmatch '%S+' do words[#words + 1] = word end
  local path = table.remove(words, 1)
  if not path then blame.raise '%run: the path of a file is expected, or the name of a recipe' end
  local found = path
  if not exists(path) and exists('recipes/' .. path .. '.lua') then
    found = 'recipes/' .. path .. '.lua'
  end
  local before = rawget(_G, 'arg')
  words[0] = found
  rawset(_G, 'arg', words)
  local ok, failure = xpcall(function() session:execute(found) end, function(err)
    return require('ridge.repl.report').catch(err)
  end)
  rawset(_G, 'arg', before)
  if not ok then error(failure, 0) end
end

local function reload(session, request)
  local name = request.rest
  if not name:find '^[%w_.%-]+$' then blame.raise '%reload: the name of a module is expected' end
  local before = package.loaded[name]
  package.loaded[name] = nil
  local ok, value = pcall(require, name)
  if not ok then
    package.loaded[name] = before
    blame.raise(('%%reload: %s'):format(tostring(value)))
  end
  local renewed = 0
  for key, held in next, session.env do
    if before ~= nil and rawequal(held, before) then
      session.env[key] = value
      renewed = renewed + 1
    end
  end
  session.write(("%s is loaded%s\n"):format(name,
    renewed > 1 and (', %d variables hold the new one'):format(renewed)
      or renewed == 1 and ', 1 variable holds the new one' or ''))
end

return {
  run = {
    usage = '%run FILE [ARGS]', takes = 'file', run = run,
    about = 'run a file; its variables stay here\n'
      .. 'It runs as if it were typed: locals at its top stay too.\n'
      .. 'ARGS are what the file finds in `arg`. A bare name is also looked for in recipes.',
  },
  reload = {
    usage = '%reload MODULE', takes = 'words', run = reload,
    about = 'load a module again\nVariables that hold the old one get the new one.',
  },
}
