"""What the pages of docs/ that are made from the code share: written, or compared with what stands there."""


def main(page, text, arguments):
    if arguments == ["--check"]:
        current = page.exists() and page.read_text() == text
        print(f"{page.name} is {'current' if current else 'not current: make docs'}")
        return 0 if current else 1
    page.write_text(text)
    return 0
