-- SPDX-License-Identifier: MIT
--- Errors as they are raised all over ridge: a sentence, then the name of a status, then the
--- operation.  Most of those places are reached by a test that reads the sentence alone.

local C = require 'ridge.ffi.lib'
local ffi = require 'ffi'

local STATUS = {}
for number = 0, -64, -1 do
  local name = ffi.string(C.rg_status_name(number)):match '^RG_(E%u+)$'
  if name then STATUS[name] = true end
end

-- The arguments of a call, of which this text begins with the bracket.
local function arguments(text)
  local list, depth, from, at = {}, 0, 2, 1
  while at <= #text do
    local c = text:sub(at, at)
    local long = text:match('^%[(=*)%[', at)
    if long then
      at = select(2, text:find(']' .. long .. ']', at, true))
    elseif text:find('^%-%-', at) then
      at = text:find('\n', at, true)
    elseif c == "'" or c == '"' then
      at = at + 1
      while text:sub(at, at) ~= c do at = at + (text:sub(at, at) == '\\' and 2 or 1) end
    elseif c:find '[%(%[{]' then
      depth = depth + 1
    elseif c:find '[%)%]}]' or c == ',' and depth == 1 then
      if c ~= ',' then depth = depth - 1 end
      if depth == 0 or c == ',' then
        list[#list + 1] = text:sub(from, at - 1):gsub('%-%-[^\n]*', ''):match '^%s*(.-)%s*$'
        from = at + 1
      end
      if depth == 0 then return list end
    end
    at = at + 1
  end
end

local function texts_in(words)
  local list = {}
  for text in words:gmatch "'([^']*)'" do list[#list + 1] = text end
  return list
end

-- What is wrong with the arguments of an error; nil when nothing is.
local function wrong(sentence, code, op)
  if STATUS[(sentence or ''):match "^'(.*)'$"] then return 'its sentence is a status' end
  local any = false
  for _, text in ipairs(texts_in(code or '')) do
    if text:find '^E%u+$' and not STATUS[text] then return text .. ' is no status' end
    any = any or STATUS[text]
  end
  if code and code:find "^'.*'$" and not any then return code .. ' stands in place of a status' end
  if STATUS[(op or ''):match "^'(.*)'$"] then return op .. ' stands in place of the operation' end
end

describe('every error of ridge', function()
  it('has a status of the core, and stands before its operation', function()
    local found, n = {}, 0
    local pipe = assert(io.popen "find lua/ridge -name '*.lua' | sort")
    for path in pipe:lines() do
      local file = assert(io.open(path))
      local text = file:read '*a'
      file:close()
      for at, name in text:gmatch "()blame%.(%l+)%f[%(]" do
        if name == 'raise' or name == 'object' then
          n = n + 1
          local _, line = text:sub(1, at):gsub('\n', '\n')
          local given = arguments(text:sub(at + #'blame.' + #name))
          local why = wrong(given[1], given[2], given[3])
          if why then found[#found + 1] = ('%s:%d: %s'):format(path, line + 1, why) end
        end
      end
    end
    pipe:close()
    assert.is_true(n > 400, n)
    assert.equal('', table.concat(found, '\n'))
  end)

  it('is read as it is written', function()
    assert.same({ "'f(a, b)'", "g({ 1, 2 }, '\\'')", '"x"' },
      arguments "('f(a, b)', g({ 1, 2 }, '\\''), -- a comment, and )\n\"x\") or 1")
    assert.same({ '[[a, b]]', 'c' }, arguments '([[a, b]], c)')
    assert.is_nil(wrong("'f: no'", "'EARG'", "'f'"))
    assert.is_nil(wrong("'f: no'", nil, "'f'"))
    assert.is_nil(wrong('why', "how == 'closed' and 'EINTR' or 'ESYS'"))
    assert.equal('ENOTSUP is no status', wrong("'f'", "'ENOTSUP'"))
    assert.equal("'f' stands in place of a status", wrong('text', "'f'", "'EARG'"))
    assert.equal("'EARG' stands in place of the operation", wrong('text', 'code', "'EARG'"))
    assert.equal('its sentence is a status', wrong("'EARG'", 'text'))
  end)
end)
