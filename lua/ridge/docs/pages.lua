-- SPDX-License-Identifier: MIT
--- The pages of the documentation, by what they are for (diataxis.fr): a tutorial to learn by, how
--- to do one thing, reference, and why.
--
-- Written pages are Markdown files below docs/, embedded in the program; those of the reference are
-- made when they are asked for.

local sources = require 'ridge.repl.sources'

local M = {}

--- The kinds, in the order in which they are listed, and what each is for.
M.KINDS = {
  { 'tutorial', 'Tutorial: to learn it, from the first command on' },
  { 'howto', 'How to: one question, one answer' },
  { 'reference', 'Reference: what there is, made from the program itself' },
  { 'why', 'Why: what the numbers mean, and why things are as they are' },
}

---@class ridge.docs.Page
---@field name string 'howto/grade-d'
---@field kind string 'howto'
---@field title string its heading
---@field about string the first sentence below it
---@field text string Markdown

--- A page of a name and a text.
---@param name string 'howto/grade-d'
---@param text string Markdown that begins with a heading
---@return ridge.docs.Page page
function M.page(name, text)
  local title, rest = text:match '^# ([^\n]+)\n+(.*)$'
  local paragraph = (rest or text):match '^(.-)\n%s*\n' or rest or text
  local flat = paragraph:gsub('%s+', ' ')
  return { name = name, kind = name:match '^[^/]+', title = title or name, text = text,
    about = flat:match '^(.-[.?!])%s' or flat }
end

--- The written pages, sorted by kind and name.
---@return ridge.docs.Page[] pages
function M.written()
  local list = {}
  for _, path in ipairs(sources.documents()) do
    local name = path:match '^docs/(%l+/[%w_-]+)%.md$'
    if name then list[#list + 1] = M.page(name, sources.document(path)) end
  end
  return list
end

--- Whether a line opens or closes a block of code, and what is said of it.
---@param line string
---@return string|nil info '' where nothing is said
function M.fence(line) return line:match '^```(.*)$' end

--- The parts of a page: what stands below each heading, code and all.
---@param page ridge.docs.Page
---@return table[] sections each title, level, text
function M.sections(page)
  local list, code = { { title = page.title, level = 1, text = '' } }, false
  local lines = {}
  local function close() list[#list].text = table.concat(lines, '\n') end
  for line in (page.text .. '\n'):gmatch '(.-)\n' do
    if M.fence(line) then code = not code end
    local marks, title = line:match '^(#+) (.+)$'
    if marks and not code and #marks > 1 then
      close()
      lines = {}
      list[#list + 1] = { title = title:gsub('`', ''), level = #marks }
    elseif not (marks and not code) then
      lines[#lines + 1] = line
    end
  end
  close()
  return list
end

return M
