//! Numbers for pairs of letters, as costs or scores of replacing one by the other.

use thiserror::Error;

/// The most letters of a matrix.
pub const MATRIX_LETTERS_MAX: usize = 256;
/// The largest number, either way.
const NUMBER_MAX: i32 = 65_535;

/// A number for each pair of some letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterMatrix {
    letters: Vec<char>,
    /// By first letter, then by second one.
    numbers: Vec<i32>,
}

/// A fault of the text of a matrix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {fault}")]
pub struct MatrixFault {
    /// The line, from 1.
    pub line: usize,
    /// The fault, and its fix.
    pub fault: String,
}

impl LetterMatrix {
    /// Reads a matrix: a line with its letters, then a line for each letter with the letter and as many whole numbers. Lines that
    /// begin with `#` and empty ones are skipped. This is the form of the matrices that NCBI publishes for proteins.
    ///
    /// ```
    /// use boxwork_kernels::distance::LetterMatrix;
    /// let matrix = LetterMatrix::parse("# purines are alike\n  A G C\nA 0 1 3\nG 1 0 3\nC 3 3 0\n")?;
    /// assert_eq!(matrix.number('A', 'G'), Some(1));
    /// assert_eq!(matrix.number('A', 'T'), None);
    /// # Ok::<(), boxwork_kernels::distance::MatrixFault>(())
    /// ```
    ///
    /// # Errors
    /// The line and its fault.
    pub fn parse(text: &str) -> Result<Self, MatrixFault> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with('#')
        });
        let (line, first) = lines.next().ok_or_else(|| MatrixFault {
            line: 1,
            fault: "there are no letters: write them in the first line".to_owned(),
        })?;
        let letters = letters_of(first).map_err(|fault| MatrixFault { line, fault })?;
        let mut numbers = Vec::with_capacity(letters.len() * letters.len());
        let mut last = line;
        for letter in &letters {
            let (line, row) = lines.next().ok_or_else(|| MatrixFault {
                line: last,
                fault: format!("the line of `{letter}` is missing after this one"),
            })?;
            last = line;
            numbers_of(*letter, letters.len(), row, &mut numbers)
                .map_err(|fault| MatrixFault { line, fault })?;
        }
        match lines.next() {
            Some((line, _)) => {
                let fault = format!("there are {} letters, and this is a line too many", letters.len());
                Err(MatrixFault { line, fault })
            }
            None => Ok(Self { letters, numbers }),
        }
    }

    /// The letters.
    pub fn letters(&self) -> &[char] {
        &self.letters
    }

    /// The number of two letters; nothing if one of them is not in the matrix.
    pub fn number(&self, a: char, b: char) -> Option<i32> {
        let place = |letter| self.letters.iter().position(|other| *other == letter);
        Some(self.numbers[place(a)? * self.letters.len() + place(b)?])
    }

    /// All pairs of letters with their numbers.
    pub fn pairs(&self) -> impl Iterator<Item = (char, char, i32)> {
        let firsts = self.letters.iter().zip(self.numbers.chunks_exact(self.letters.len()));
        firsts.flat_map(|(a, numbers)| self.letters.iter().zip(numbers).map(|(b, number)| (*a, *b, *number)))
    }

    /// The first pair of letters whose number is another one in the other order.
    pub fn asymmetry(&self) -> Option<(char, char)> {
        self.pairs().find(|(a, b, number)| self.number(*b, *a) != Some(*number)).map(|(a, b, _)| (a, b))
    }
}

fn letters_of(line: &str) -> Result<Vec<char>, String> {
    let mut letters: Vec<char> = Vec::new();
    for word in line.split_whitespace() {
        let mut of_word = word.chars();
        let (Some(letter), None) = (of_word.next(), of_word.next()) else {
            return Err(format!(
                "`{word}` is no single letter: the first line holds the letters of the matrix"
            ));
        };
        if letters.contains(&letter) {
            return Err(format!("`{letter}` is there twice"));
        }
        letters.push(letter);
    }
    match letters.len() {
        0..=MATRIX_LETTERS_MAX => Ok(letters),
        count => Err(format!("there are {count} letters, and a matrix takes at most {MATRIX_LETTERS_MAX}")),
    }
}

fn numbers_of(letter: char, count: usize, line: &str, numbers: &mut Vec<i32>) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    if !name.chars().eq([letter]) {
        return Err(format!("this line begins with `{name}`, and `{letter}` is the next letter"));
    }
    let before = numbers.len();
    for word in words {
        match word.parse::<i32>() {
            Ok(number) if number.abs() <= NUMBER_MAX => numbers.push(number),
            _ => return Err(format!("`{word}` is no whole number from -{NUMBER_MAX} to {NUMBER_MAX}")),
        }
    }
    match numbers.len() - before {
        found if found == count => Ok(()),
        found => Err(format!("`{letter}` has {found} numbers, and there are {count} letters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_their_line() {
        let fault = |text: &str| LetterMatrix::parse(text).unwrap_err();
        for (text, line, says) in [
            ("", 1, "no letters"),
            ("# nothing\n\n", 1, "no letters"),
            ("A BC\n", 1, "`BC`"),
            ("A A\n", 1, "twice"),
            ("# x\nA B\nA 0 1\n", 3, "`B` is missing"),
            ("A B\nB 0 1\n", 2, "`A` is the next"),
            ("A B\nA 0\nB 1 0", 2, "1 numbers"),
            ("A B\nA 0 1.5\nB 1 0", 2, "`1.5`"),
            ("A B\nA 0 1\nB 1 70000", 3, "`70000`"),
            ("A\nA 0\nB 1", 3, "too many"),
        ] {
            let found = fault(text);
            assert!(found.line == line && found.fault.contains(says), "{text:?}: {found}");
        }
        let many: String = ('\u{4e00}'..).take(257).flat_map(|letter| [letter, ' ']).collect();
        assert!(fault(&many).fault.contains("257"));
    }

    #[test]
    fn numbers_are_found_by_their_letters() {
        let matrix = LetterMatrix::parse(" a b\n\na 4 -1\n# between\nb -2 5\n").unwrap();
        assert_eq!(matrix.letters(), ['a', 'b']);
        assert_eq!([matrix.number('a', 'b'), matrix.number('b', 'a')], [Some(-1), Some(-2)]);
        assert_eq!(matrix.asymmetry(), Some(('a', 'b')));
        assert_eq!(matrix.pairs().map(|pair| pair.2).sum::<i32>(), 6);
    }
}
