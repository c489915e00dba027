-- SPDX-License-Identifier: MIT
local lexer = require 'ridge.repl.lexer'

local function kinds(source)
  local list = {}
  for i, token in ipairs(lexer.words(source)) do list[i] = token.kind .. ':' .. token.text end
  return list
end

describe('the lexer', function()
  it('gives the source back when its tokens are joined', function()
    for _, source in ipairs {
      'local x = 1', 'a.b:c"str"[[long]]--comment', "f'x\\'y' --[==[ a ]] ]==] z", '1e-3+0x1p4..2',
      '"open', '[[open', '--[[open', '\1\2 $ ?', 'x\n\ty', 'größe = 1',
    } do
      local texts = {}
      for i, token in ipairs(lexer.tokens(source)) do texts[i] = token.text end
      assert.equal(source, table.concat(texts))
    end
  end)

  it('tells keywords, names, numbers and operators apart', function()
    assert.same({ 'keyword:local', 'name:x', 'op:=', 'number:1e-3', 'op:..', 'string:"a"' },
      kinds 'local x = 1e-3 .. "a"')
    assert.same({ 'number:0x10ULL', 'op:==', 'number:3LL', 'op:~=', 'op:...' },
      kinds '0x10ULL == 3LL ~= ...')
    assert.same({ 'number:.5', 'op:+', 'number:2i' }, kinds '.5+2i')
  end)

  it('leaves keywords inside strings and comments alone', function()
    assert.same({ 'string:"do end"' }, kinds '"do end" -- do end')
    assert.same({ 'string:[[\n]=] end]]', 'name:x' }, kinds '[[\n]=] end]]x')
  end)

  it('closes a long bracket by one of its own level', function()
    for level = 0, 9 do
      local signs = ('='):rep(level)
      local other = ']' .. ('='):rep(level + 1) .. '] ]' .. ('='):rep(math.max(0, level - 1))
      local long = '[' .. signs .. '[ ' .. other .. ' ]' .. signs .. ']'
      if level == 0 then long = '[[ ]=] ]]' end
      assert.same({ 'string:' .. long, 'name:x' }, kinds(long .. 'x'))
      assert.same({ 'name:x' }, kinds('--' .. long .. 'x'))
      assert.equal('comment', select(2, lexer.tokens('--[' .. signs .. '[ ' .. other)))
    end
  end)

  it('names what stays open at the end', function()
    assert.equal('string', select(2, lexer.tokens '[[a'))
    assert.equal('string', select(2, lexer.tokens '"a'))
    assert.equal('comment', select(2, lexer.tokens '--[[ a'))
    assert.is_nil(select(2, lexer.tokens '"a" -- b'))
  end)
end)
