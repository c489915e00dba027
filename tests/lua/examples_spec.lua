-- SPDX-License-Identifier: MIT
-- The examples of docstrings (lines of `>>`) are run as one would type them, in an empty folder.
-- Not those of rooms whose examples go on with a sweep, a database or a measurement that the reader
-- has (store, sweep, measure, plot, bench): words_spec runs what README and the help say of those.

local folders = dofile 'tests/lua/store/folder.lua'

local ROOMS_NOT_RUN = { store = true, sweep = true, measure = true, plot = true, bench = true,
  cli = true, report = true }

local NOT_RUN = { -- by how they begin, and why
  ["images = ridge.data.rows('images.bin'"] = 'reads a file of the reader',
  ["x, names, prepared = ridge.data.csv('people.csv'"] = 'reads a file of the reader',
  ['x = ridge.ones(3):pin()'] = 'needs a GPU',
  ['ridge.anomaly('] = 'raises, as it is meant to',
  ['trainer:record('] = 'goes on with a trainer of the reader',
}

local ROOT = io.popen('pwd'):read '*l'

local function sources()
  local list, pipe = {}, io.popen 'find lua/ridge -name "*.lua" | sort'
  for path in pipe:lines() do
    if not ROOMS_NOT_RUN[path:match '^lua/ridge/([%w_]+)'] then list[#list + 1] = path end
  end
  pipe:close()
  return list
end

-- Groups of lines that follow one another, with the number of the first.
local function groups_of(path)
  local groups, open, number = {}, nil, 0
  for line in io.lines(path) do
    number = number + 1
    local typed = line:match '^%s*%-%-%-? >> ?(.*)$'
    if typed then
      if not open then
        open = { line = number }
        groups[#groups + 1] = open
      end
      open[#open + 1] = typed
    else
      open = nil
    end
  end
  return groups
end

-- Lines as a chunk: a value that is typed alone is one that is looked at.
local function chunk_of(group)
  local text = {}
  for i, line in ipairs(group) do
    local alone = not loadstring(line) and loadstring('return ' .. line)
    text[i] = alone and 'local _ = ' .. line or line:gsub('^%(', ';(')
  end
  return table.concat(text, '\n')
end

describe('examples of docstrings', function()
  local folder
  setup(function() folder = folders.new() end)
  teardown(function() folders.remove(folder) end)

  it('run as they stand', function()
    local program, n, left = { [[local ridge = require 'ridge'
      local structure = require 'ridge.repl.structure'
      local names = { ridge = ridge, str = structure.str, summary = structure.summary }
      local failed = 0
      local function try(where, text)
        local chunk, why = loadstring(text, '=' .. where)
        local module = where:match '^lua/(.-)%.lua':gsub('/', '.'):gsub('%.init$', '')
        local own = setmetatable({}, { __index = function(_, name)
          if names[name] ~= nil then return names[name] end
          if name == module:match '[%w_]+$' then return require(module) end
          return _G[name]
        end })
        local ok = chunk and true
        if chunk then ok, why = pcall(setfenv(chunk, own)) end
        if not ok then
          failed = failed + 1
          io.stderr:write(where, ': ', tostring(why), '\n')
        end
      end]] }, 0, {}
    for name in pairs(NOT_RUN) do left[name] = true end
    for _, path in ipairs(sources()) do
      for _, group in ipairs(groups_of(path)) do
        local skipped
        for name in pairs(NOT_RUN) do
          if group[1]:sub(1, #name) == name then skipped, left[name] = true, nil end
        end
        if not skipped then
          n = n + 1
          program[#program + 1] = ('try(%q, %q)'):format(path .. ':' .. group.line, chunk_of(group))
        end
      end
    end
    program[#program + 1] = 'io.stderr:write(failed, " failed\\n")'
    assert.same({}, left) -- what is not run is still there
    assert.is_true(n > 100, n)
    local file = assert(io.open(folder .. '/examples.lua', 'w'))
    file:write(table.concat(program, '\n'))
    file:close()
    local text, status = folders.run(('cd %s && %s/ridge examples.lua 2>&1 >/dev/null </dev/null')
      :format(folder, ROOT))
    assert.equal('0 failed\n', text)
    assert.equal(0, status)
  end)
end)
