-- SPDX-License-Identifier: MIT
--- Every option of every function: of which type, its default, its least and greatest value, its
--- words, as approved.  They are found in what the functions of lua/ridge hold.

local approved = dofile 'tests/lua/approved.lua'

-- What starts something when it is loaded, or is the program's own beginning.
local LEFT_OUT = { ['ridge.cli.main'] = true }

local TYPE = { number = true, integer = true, string = true, boolean = true, table = true,
  list = true, cdata = true, any = true, ['function'] = true, userdata = true, thread = true }

local function is_rule(rule)
  if type(rule) ~= 'table' or type(rule[1]) ~= 'string' then return false end
  for word in (rule[1] .. '|'):gmatch '(.-)|' do
    if not TYPE[word] then return false end
  end
  return true
end

local function is_spec(t)
  local n = 0
  for name, rule in pairs(t) do
    if type(name) ~= 'string' or not is_rule(rule) then return false end
    n = n + 1
  end
  return n > 0
end

local function told(value)
  if type(value) == 'number' then return ('%.14g'):format(value) end
  if type(value) == 'function' then return 'a function' end
  if type(value) ~= 'table' then return tostring(value) end
  local words, list = {}, {}
  for name in pairs(value) do list[#list + 1] = name end
  table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
  for i, name in ipairs(list) do
    words[i] = (type(name) == 'string' and name .. '=' or '') .. told(value[name])
  end
  return '{' .. table.concat(words, ' ') .. '}'
end

local function line_of(name, rule)
  local parts = { '  ' .. name, rule[1] }
  for _, key in ipairs { 'required', 'default', 'min', 'max', 'above', 'nan', 'choices',
    'names' } do
    if rule[key] ~= nil then parts[#parts + 1] = key .. ' ' .. told(rule[key]) end
  end
  return table.concat(parts, ', ')
end

local function text_of(spec)
  local names, out = {}, {}
  for name in pairs(spec) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do out[i] = line_of(name, spec[name]) end
  return table.concat(out, '\n')
end

describe('the options of all functions', function()
  it('have the types, defaults and limits that were approved', function()
    local modules, files = {}, io.popen 'find lua/ridge -name "*.lua" | sort'
    for path in files:lines() do
      local name = path:match '^lua/(.*)%.lua$':gsub('/init$', ''):gsub('/', '.')
      if not LEFT_OUT[name] then modules[#modules + 1] = name end
    end
    files:close()
    local seen, found = {}, {}
    local walk
    local function into(value)
      if type(value) == 'table' or type(value) == 'function' then walk(value) end
    end
    function walk(value)
      if seen[value] then return end
      seen[value] = true
      if type(value) == 'function' then
        local ours = debug.getinfo(value, 'S').source:find 'ridge/.*%.lua$'
        for i = 1, 250 do
          local name, held = debug.getupvalue(value, i)
          if not name then break end
          into(ours and held)
        end
      elseif is_spec(value) then
        found[text_of(value)] = true
      else
        for _, inner in pairs(value) do into(inner) end
        into(getmetatable(value))
      end
    end
    for _, name in ipairs(modules) do
      local ok, module = pcall(require, name)
      into(ok and module)
    end
    local out = {}
    for text in pairs(found) do out[#out + 1] = text end
    table.sort(out)
    assert.is_true(#out > 100)
    approved.check('calls/limits', table.concat(out, '\n\n'))
  end)
end)
